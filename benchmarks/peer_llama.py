"""llama.cpp on the same GGUF file, through the prebuilt programs of the npm package node-llama-cpp.

It computes with the file's 4-bit weights, so it reads a fifth of the bytes; the comparison is for orientation.
Leaves out: building llama.cpp, and its speculative decoding.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from bench import MODEL, Bench
from unavailable import Unavailable

from specdec import checkpoints

VERSION = "3.22.1"
SCRIPT = Path(__file__).with_name("llama.mjs")
BINARIES = {
    ("Linux", "x86_64"): "linux-x64",
    ("Linux", "aarch64"): "linux-arm64",
    ("Darwin", "arm64"): "mac-arm64-metal",
    ("Darwin", "x86_64"): "mac-x64",
}
INSTALL_LIMIT, ANSWER_LIMIT = 600, 120  # seconds


class LlamaCpp:
    """A process that decodes once per line on its standard input."""

    def __init__(self, bench: Bench, ids: list[int]):
        node = shutil.which("node")
        if node is None:
            raise Unavailable("node is not installed")
        folder = _installed(bench.tools or checkpoints.cache_dir() / "benchmarks")
        gguf = checkpoints.locate(MODEL, progress=False).gguf
        if gguf is None:
            raise Unavailable("the model was not loaded from a GGUF file")
        settings = {"gguf": str(gguf), "threads": bench.threads, "ids": ids, "package": str(folder)}
        self._process = subprocess.Popen(
            [node, str(SCRIPT), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ready = self._answer()
        self.note = f"node-llama-cpp {VERSION}, 4-bit weights, {ready['threads']} threads"

    def decode(self, tokens: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{tokens}\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert answer["tokens"] == tokens, f"llama.cpp returned {answer['tokens']} of {tokens} tokens"
        return answer["seconds"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _answer(self) -> dict[str, Any]:
        """The next line that is JSON; the package prints notices of its own."""
        assert self._process.stdout is not None and self._process.stderr is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self._process.wait(ANSWER_LIMIT)
        last = (self._process.stderr.read().strip().splitlines() or ["it said nothing"])[-1]
        raise Unavailable(f"llama.cpp ended: {last[:200]}")


def _installed(folder: Path) -> Path:
    """The package's folder; installed on first use. Without install scripts nothing is built or downloaded later."""
    package = folder / f"node-llama-cpp-{VERSION}"
    entry = package / "node_modules" / "node-llama-cpp"
    if (package / "installed").exists():
        return entry
    npm, system = shutil.which("npm"), (platform.system(), platform.machine())
    if npm is None:
        raise Unavailable("npm is not installed")
    if system not in BINARIES:
        raise Unavailable(f"node-llama-cpp has no prebuilt program for {' '.join(system)}")
    package.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(package), "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
    # Optional packages hold the programs of every GPU; one of them is enough.
    command += ["--omit=optional", f"node-llama-cpp@{VERSION}", f"@node-llama-cpp/{BINARIES[system]}@{VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm install took longer than {INSTALL_LIMIT} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise Unavailable(f"npm install failed: {lines[-1][:200]}")
    (package / "installed").touch()
    return entry
