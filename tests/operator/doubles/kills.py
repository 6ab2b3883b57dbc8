"""Ends the operator's process in doubles, at a moment that a test has chosen."""


class KilledError(BaseException):
    """The process ends here: no handler of its own runs."""
