"""Counts XLA compilations: after warm-up there should be none.

A compilation that the persistent cache answers counts too: a program was asked for that this process did not have.
Leaves out: why something was compiled (`jax.log_compiles` tells).
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import jax

COMPILED = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass
class CompileCounter:
    """Counts the compilations of a `with` block, in every thread of the process.

    Args:
      count: programs compiled so far.
      seconds: time spent on them.

    Example:
      >>> with CompileCounter() as compilations:
      ...     pass
      >>> compilations.count
      0
    """

    count: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> CompileCounter:
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event: str, duration_secs: float, **details: Any) -> None:
        if event == COMPILED:
            with self._lock:
                self.count += 1
                self.seconds += duration_secs
