"""Importing is free: no device, no torch, no transformers. Each check runs in its own process."""

import json
import os
import subprocess
import sys

import pytest
from package_layout import modules

REPORT = """
import importlib, json, sys, time
start = time.process_time()
for name in {names}:
    importlib.import_module(name)
seconds = time.process_time() - start
bridge = sys.modules.get("jax._src.xla_bridge")
print(json.dumps({{
    "seconds": seconds,
    "devices": sorted(bridge._backends) if bridge else [],
    "modules": sorted(name for name in sys.modules if "." not in name),
}}))
"""


def after_import(*names: str) -> dict:
    """What a fresh process finds after importing these."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    code = REPORT.format(names=list(names))
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["specdec", "specdec.strategies", "specdec.backends", "specdec.cli"])
def test_import_is_free(name: str):
    report = after_import(name)
    assert report["devices"] == []
    assert not {"torch", "transformers", "matplotlib", "IPython"} & set(report["modules"])


def test_import_takes_little_time():
    """Beside JAX itself. Processor time, since the machine may be busy."""
    with_jax = after_import("jax", "flax.struct", "optax")["seconds"]
    assert after_import("specdec")["seconds"] < with_jax + 2.0


def test_no_module_touches_a_device_or_torch_when_imported():
    """Such as an array made at the top of a file."""
    report = after_import(*modules())
    assert report["devices"] == []
    assert "torch" not in report["modules"]


def test_a_touched_device_would_be_seen():
    """The check above looks at a private name of JAX: prove that it still means something."""
    report = after_import("jax.numpy")
    assert report["devices"] == []
    code = "import jax, jax._src.xla_bridge as bridge; jax.numpy.zeros(1); print(sorted(bridge._backends))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cpu" in result.stdout
