"""The invariant that no denied request is served: it reports the violation, and nothing else as one."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.acls import AclsImage
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.permission_invariants import PermissionInvariants, denial, everything_allowed
from ottla.types import Endpoint, Uuid
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

NODE = Endpoint("node1", 9092)
FIRST, SECOND = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")
DENIED = denial("t", Operation.WRITE)
REQUEST = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0)])])


def process(acls: dict[Uuid, Any]) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(image=SimpleNamespace(acls=AclsImage(acls))))


def response(code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(error_code=code)])]
    )


class World:
    """One node, before and after its response."""

    def __init__(self, acls: dict[Uuid, Any]) -> None:
        self.place = SimpleNamespace(process=process(acls))
        cluster: Any = SimpleNamespace(by_host={"node1": self.place}, nodes={1: self.place})
        self.permissions = PermissionInvariants(cluster)
        self.delivered: list[Any] = []
        self.deliver = self.permissions.watched(NODE, REQUEST, self.delivered.append)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {FIRST: DENIED}, id="denied-meanwhile"),
        pytest.param({FIRST: DENIED}, {}, id="permitted-meanwhile"),
        pytest.param({FIRST: DENIED}, {SECOND: DENIED}, id="permitted-in-between"),
        pytest.param({FIRST: denial("u", Operation.WRITE)}, {FIRST: denial("u", Operation.WRITE)}, id="another-topic"),
        pytest.param({FIRST: denial("t", Operation.READ)}, {FIRST: denial("t", Operation.READ)}, id="only-reads"),
        pytest.param({FIRST: everything_allowed()}, {FIRST: everything_allowed()}, id="allowed"),
    ],
)
def test_request_permitted_at_some_moment_may_be_served(before: dict[Uuid, Any], after: dict[Uuid, Any]) -> None:
    world = World(before)
    world.place.process.metadata.image.acls = AclsImage(after)

    world.deliver(response(ErrorCode.NONE))

    assert len(world.delivered) == 1


def test_request_denied_all_the_time_must_not_be_served() -> None:
    world = World({FIRST: DENIED})

    with pytest.raises(InvariantViolation, match="NothingDeniedIsServed: node1 carried out WRITE on t"):
        world.deliver(response(ErrorCode.NONE))


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_error_response_is_no_violation(code: ErrorCode) -> None:
    world = World({FIRST: DENIED})

    world.deliver(response(code))

    assert world.permissions.denied_count == (code is ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_restarted_process_may_have_served_before_it_knew_the_denial() -> None:
    world = World({FIRST: DENIED})
    world.place.process = process({FIRST: DENIED})

    world.deliver(response(ErrorCode.NONE))

    assert world.permissions.is_anything_denied()
