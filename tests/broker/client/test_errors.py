"""Error codes of responses become exceptions."""

import pytest

from ottla.client.errors import kafka_error, raise_for
from ottla.errors import ErrorCode, KafkaError


def test_known_code_keeps_the_brokers_message() -> None:
    error = kafka_error(37, "not more")

    assert (error.code, error.message) == (ErrorCode.INVALID_PARTITIONS, "not more")


def test_error_code_of_a_newer_kafka_is_in_the_message() -> None:
    error = kafka_error(9999)

    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in str(error)


def test_no_error_raises_nothing() -> None:
    assert not raise_for(0, "ignored")


def test_error_is_raised() -> None:
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        raise_for(36)
