"""Errors of responses, as recorded scenarios show them."""

from typing import Any

from ottla.errors import ErrorCode


def code(value: int) -> str:
    return ErrorCode(value).name


def message_of(response: Any) -> str:
    return f" message={response.error_message!r}" if response.error_message else ""


def error_of(response: Any) -> str:
    """Return the error code, NONE included, and the message, if any."""
    return code(response.error_code) + message_of(response)
