"""In a fresh process: no device is started, a broken platform gets advice, a notice goes to stderr once."""

import os
import subprocess
import sys

PROGRAM = """
import sys
import specdec.backends as backends
import specdec.backends.probe_cases
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
assert not {"torch", "transformers"} & set(sys.modules)
try:
    backends.select()
except backends.base.ConfigError as error:
    print(error)
for _ in range(2):
    backends.notice("only once")
"""


def test_fresh_process():
    # A platform that does not exist: JAX raises as soon as anything starts it.
    environment = {**os.environ, "JAX_PLATFORMS": "nonexistent"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "JAX cannot start" in done.stdout and "Unset JAX_PLATFORMS" in done.stdout
    assert done.stderr.count("only once") == 1
