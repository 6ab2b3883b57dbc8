"""Error codes, as peers send them."""

import pickle

import pytest

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError, KafkaError, ShortageError, StorageError


def test_error_code_of_a_later_release_is_unknown_server_error() -> None:
    assert ErrorCode(max(ErrorCode) + 1) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_value_that_is_no_number_is_no_code() -> None:
    with pytest.raises(ValueError, match="valid ErrorCode"):
        ErrorCode("NONE")


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.NOT_CONTROLLER),
        CorruptRecordError("the batch at offset 7"),
        InvalidRecordError("record 3"),
        StorageError("cannot read"),
        ShortageError("cannot open"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_of_another_process_is_the_same(error: KafkaError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.code, copy.message) == (type(error), str(error), error.code, error.message)
