"""Reading a JSON object with errors that name the file and the key.

Leaves out: what the keys mean.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from specdec.errors import ConfigError


class JsonObject:
    """One JSON object; every refusal names the file and the key.

    Args:
      where: file, and the key of the object inside it if nested.
      values: the parsed object.
    """

    def __init__(self, where: str, values: dict[str, Any]):
        self.where, self.values = where, values

    @classmethod
    def read(cls, path: Path) -> JsonObject:
        """Parse a file.

        Raises:
          ConfigError: the file is missing, is not JSON, or holds something other than an object.
        """
        try:
            values = json.loads(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error}). A Hugging Face folder needs it.") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: is not JSON ({error}). Download it again.") from error
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: should hold a JSON object, came {type(values).__name__}.")
        return cls(str(path), values)

    def refuse(self, key: str, expected: str) -> ConfigError:
        """The error for a value that is not supported."""
        return ConfigError(f"{self.where}: {key!r} is {self.values.get(key)!r:.80}, expected {expected}.")

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default when the key is absent or null."""
        value = self.values.get(key)
        return default if value is None else value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number.

        Raises:
          ConfigError: absent without a default, or something else.
        """
        value = self.get(key, default)
        if value is None:
            raise ConfigError(f"{self.where}: key {key!r} is missing.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.refuse(key, "a number")
        return float(value)

    def count(self, key: str, default: int | None = None) -> int:
        """A positive whole number.

        Raises:
          ConfigError: absent without a default, or something else.
        """
        value = self.number(key, default)
        if value != int(value) or not 0 < value < 1 << 31:
            raise self.refuse(key, "a positive whole number")
        return int(value)

    def switch(self, key: str, default: bool) -> bool:
        """A boolean.

        Raises:
          ConfigError: something else.
        """
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false")
        return value

    def ids(self, key: str) -> tuple[int, ...]:
        """Token ids given as one integer or a list of them; absent means none.

        Raises:
          ConfigError: something else.
        """
        value = self.get(key, [])
        found = value if isinstance(value, list) else [value]
        if any(type(item) is not int or not 0 <= item < 1 << 31 for item in found):
            raise self.refuse(key, "a token id or a list of token ids")
        return tuple(found)

    def inner(self, key: str) -> JsonObject | None:
        """A nested object, or None when absent or empty.

        Raises:
          ConfigError: something else.
        """
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.refuse(key, "an object")
        return JsonObject(f"{self.where}: {key!r}", value) if value else None
