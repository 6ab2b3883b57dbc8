"""How a double of the world ends the operator's process, at a moment that a test has chosen."""


class KilledError(BaseException):
    """The process ends here: no handler of its own runs."""
