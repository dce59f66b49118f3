"""Named errors. Every message says what was expected, what came, where, and what to do about it.

Leaves out: where errors are raised; each check lives beside the code it guards.
"""


class SpecdecError(Exception):
    """Base class of every error that this library raises on purpose."""


class SettingsError(SpecdecError, ValueError):
    """A user-given setting (temperature, budget, cap, prompt, ...) is outside its documented range."""


class CompatibilityError(SpecdecError, ValueError):
    """The chosen parts cannot work together; the message names a combination that does."""


class ConfigError(SpecdecError, ValueError):
    """A model configuration lacks a key or holds a value that is not supported; the key is named."""


class CheckpointError(SpecdecError, ValueError):
    """A weight file is missing, damaged, or does not fit its configuration; file and tensor are named."""


class FetchError(SpecdecError, OSError):
    """A model could not be obtained (offline, interrupted, corrupt, no space); nothing half-written is left."""


class TemplateError(SpecdecError, ValueError):
    """A chat was asked for but the model has no chat template."""


class NumericalError(SpecdecError, ArithmeticError):
    """The target produced NaN logits; the row and position are named."""
