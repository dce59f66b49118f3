"""One notice per reason per process.

Leaves out: who gives notice (`select.py`).
"""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger("specdec.backends")

_given: set[str] = set()
_lock = threading.Lock()


def notice(message: str) -> bool:
    """Log a message as a warning, the first time only.

    Logging rather than `warnings`: a fallback is news for the user, not a defect of the calling code, and
    must not become an exception where warnings are errors. Without any logging set up it goes to stderr.

    Args:
      message: the reason; the same text is never given twice.

    Returns:
      Whether the message was given now.
    """
    with _lock:
        if message in _given:
            return False
        _given.add(message)
    logger.warning(message)
    return True
