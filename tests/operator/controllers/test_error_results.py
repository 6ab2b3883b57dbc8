"""From errors to readiness: wait, or change something."""

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.controllers.error_results import readiness_of_error
from ottla_operator.errors import ApiError, BrokerUnreachableError, HostError, QuorumLostError
from ottla_operator.model.conditions import Rejected, Waiting


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        pytest.param(KafkaError(ErrorCode.INVALID_CONFIG), Rejected, "InvalidConfig", id="broker-rejects"),
        pytest.param(KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION), Rejected, "InvalidTopic", id="exception-suffix"),
        pytest.param(KafkaError(ErrorCode.POLICY_VIOLATION), Rejected, "PolicyViolation", id="policy"),
        pytest.param(KafkaError(ErrorCode.NOT_CONTROLLER), Waiting, "NotController", id="retriable"),
        pytest.param(KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), Waiting, "TopicAlreadyExists", id="lost-a-race"),
        pytest.param(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), Waiting, "UnknownServerError", id="unknown"),
        pytest.param(BrokerUnreachableError("no"), Waiting, "BrokerUnreachable", id="unreachable"),
        pytest.param(QuorumLostError("no"), Waiting, "QuorumLost", id="no-leader"),
        pytest.param(HostError("PortInUse", "no"), Rejected, "PortInUse", id="host-rejects"),
        pytest.param(ApiError(403, "Forbidden", "no"), Rejected, "Forbidden", id="api-forbids"),
        pytest.param(ApiError(422, "Invalid", "no"), Rejected, "Invalid", id="api-rejects"),
        pytest.param(ApiError(409, "Conflict", "no"), Waiting, "Conflict", id="api-conflict"),
        pytest.param(ApiError(500, "InternalError", "no"), Waiting, "InternalError", id="api-fails"),
        pytest.param(
            ApiError(
                500,
                "Internal Server Error",
                "failed to create typed patch object: .spec.template.spec.affinity.x: field not declared in schema",
            ),
            Rejected,
            "Invalid",
            id="api-does-not-know-a-field",
        ),
        pytest.param(ConnectionResetError("no"), Waiting, "HostUnavailable", id="connection"),
        pytest.param(TimeoutError(), Waiting, "HostUnavailable", id="timeout"),
    ],
)
def test_error_becomes_a_readiness(error: Exception, kind: type[Waiting | Rejected], reason: str) -> None:
    readiness = readiness_of_error(error, "do something")

    assert (type(readiness), readiness.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(KafkaError(ErrorCode.INVALID_CONFIG, "Unknown key"), "could not try: Unknown key", id="words"),
        pytest.param(KafkaError(ErrorCode.INVALID_CONFIG), "could not try: INVALID_CONFIG", id="no-words"),
        pytest.param(TimeoutError(), "could not try: TimeoutError", id="nothing-said"),
    ],
)
def test_message_names_the_failed_action(error: Exception, message: str) -> None:
    assert readiness_of_error(error, "try").message == message


def test_terminating_namespace_is_a_wait() -> None:
    readiness = readiness_of_error(ApiError(403, "NamespaceTerminating", "going"), "make Service x")

    assert readiness == Waiting("NamespaceTerminating", "could not make Service x: 403 NamespaceTerminating: going")
