"""Which failure ends the command with which number."""

import pytest

from ottla.cli.exit_codes import ExitCode, NotFoundError, UnhealthyError, advice_on, exit_code_of
from ottla.client.errors import BrokerUnreachableError, RequestTimeoutError
from ottla.errors import ErrorCode, KafkaError, OttlaError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 3, id="no-topic"),
        pytest.param(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 4, id="denied"),
        pytest.param(KafkaError(ErrorCode.REQUEST_TIMED_OUT), 5, id="broker-timed-out"),
        pytest.param(KafkaError(ErrorCode.INVALID_CONFIG), 1, id="rejected"),
        pytest.param(RequestTimeoutError("x"), 5, id="no-response-in-time"),
        pytest.param(BrokerUnreachableError("x"), 5, id="unreachable"),
        pytest.param(NotFoundError("x"), 3, id="not-found"),
        pytest.param(UnhealthyError("x"), 10, id="unhealthy"),
    ],
)
def test_code_of_a_failure(error: OttlaError, code: int) -> None:
    assert exit_code_of(error) == ExitCode(code)


def test_authorization_failure_advises_ottla_doctor() -> None:
    denied = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "group audit")

    assert "ottla doctor" in (advice_on(denied) or "")
    assert advice_on(KafkaError(ErrorCode.INVALID_CONFIG)) is None
