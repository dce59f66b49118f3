"""Why something cannot be measured here. Leaves out: failures, which are errors."""


class Unavailable(Exception):
    """A peer that this machine does not have; the message is the reason."""
