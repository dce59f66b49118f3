import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from analysis import small

from specdec import __version__
from specdec.checkpoints import ALIASES
from specdec.cli import fetch, main, output, registry
from specdec.errors import FetchError, NumericalError, SettingsError


def test_list_names_models_and_strategies(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path))
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*ALIASES, *registry.STRATEGIES, "--draft-model"))
    assert "no: specdec fetch" in out
    (alias,) = ALIASES.values()
    file = tmp_path / "models" / alias.name / Path(alias.wheel.member).name
    file.parent.mkdir(parents=True)
    file.touch()
    main(["list"])
    assert "yes" in capsys.readouterr().out


def test_fetch_prints_where_the_model_lies(capsys, tmp_path):
    folder = small.write(tmp_path / "model")
    assert main(["fetch", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SettingsError("bad\nsetting"), 2, "error: bad setting"),
        (NumericalError("NaN"), 2, "error: NaN"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(capsys, error, code, words):
    def load(name, **options):
        raise error

    assert main(["generate", "small", "-m", "x"], load=load) == code
    assert capsys.readouterr().err == f"specdec: {words}\n"


def test_an_interrupted_download_counts_as_interrupted(capsys, monkeypatch):
    def locate(model):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise FetchError("interrupted; nothing was kept") from error

    monkeypatch.setattr(fetch, "locate", locate)
    assert main(["fetch", "smollm2-135m"]) == 130
    assert "nothing was kept" in capsys.readouterr().err


def test_faults_of_our_own_keep_their_traceback():
    def load(name, **options):
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        main(["generate", "small", "-m", "x"], load=load)


@pytest.mark.parametrize("arguments", [[], ["magic"], ["generate"], ["compare", "small"]])
def test_usage_errors_exit_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"specdec {__version__}\n"


def test_json_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "out.json"
    output.write_json(file, {"text": "é", "value": None})
    assert json.loads(file.read_text(encoding="utf-8")) == {"text": "é", "value": None}
    with pytest.raises(ValueError, match="JSON"):
        output.write_json(file, {"value": float("nan")})

    def full(descriptor):
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        output.write_json(file, {"value": 2})
    assert json.loads(file.read_text(encoding="utf-8"))["text"] == "é"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.skipif(os.name == "nt", reason="permission bits")
def test_json_file_has_ordinary_permissions(tmp_path):
    output.write_json(tmp_path / "out.json", {})
    (tmp_path / "other").touch()
    assert (tmp_path / "out.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def python(code: str, **environment: str) -> str:
    """Output of a fresh process, in which JAX has not started and no cache is set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


PREPARE = """
import os, jax
from specdec.cli.startup import prepare
prepare({flags!r}, compile_cache={cache})
print(os.environ.get("XLA_FLAGS"), jax.config.jax_compilation_cache_dir)
jax.jit(lambda x: x + 1)(1)
"""


def test_flags_and_compilation_cache_are_set_before_jax_starts(tmp_path):
    def prepared(flags, cache, **environment):
        return python(PREPARE.format(flags=flags, cache=cache), SPECDEC_CACHE=str(tmp_path), **environment).split()

    assert prepared("none", False) == ["None", "None"]
    assert prepared("none", False, XLA_FLAGS="--xla_cpu_use_onednn=false") == ["--xla_cpu_use_onednn=false", "None"]
    flags, folder = prepared("default", True)
    assert flags.startswith("--xla_cpu")
    assert Path(folder).is_dir() and Path(folder).is_relative_to(tmp_path)
    assert prepared("none", True, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own")) == ["None", str(tmp_path / "own")]


def test_no_compile_cache_reaches_the_preparation(monkeypatch, capsys):
    from specdec.cli import options

    seen = []
    monkeypatch.setattr(options, "prepare", lambda flags, *, compile_cache: seen.append((flags, compile_cache)))
    for flags in ((), ("--no-compile-cache",), ("--xla-flags=--xla_x=1",)):
        main(["generate", "small", "-m", "x", "--max-new-tokens", "0", *flags], load=small.load)
    assert seen == [("none", True), ("none", False), ("--xla_x=1", True)]


def test_module_runs_as_a_program(tmp_path):
    code = "import runpy, sys; sys.argv = ['specdec', 'list']; runpy.run_module('specdec', run_name='__main__')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "prompt_lookup" in run.stdout
