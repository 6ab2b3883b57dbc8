"""Error codes, as peers send them."""

import pytest

from ottla.errors import ErrorCode


def test_error_code_of_a_later_release_is_unknown_server_error() -> None:
    assert ErrorCode(max(ErrorCode) + 1) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_value_that_is_no_number_is_no_code() -> None:
    with pytest.raises(ValueError, match="valid ErrorCode"):
        ErrorCode("NONE")
