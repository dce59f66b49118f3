"""The `specdec` command: strings become parts here, and nowhere else.

Leaves out: anything that measures or decodes; the library does that.
"""

from specdec.cli.main import main

__all__ = ["main"]
