"""Addition and removal of voters, unregistration of brokers: requests and errors of the admin client."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, Uuid, format_uuid
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

DIRECTORY = Uuid(bytes(15) + b"\7")


def call_admin(broker: Any, call: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with broker, AdminClient([broker.endpoint]) as admin:
            await call(admin)

    asyncio.run(run())


def test_voter_is_added_with_its_directory_and_listeners(broker: Any) -> None:
    broker.scripts[AddRaftVoterRequest] = lambda _: AddRaftVoterResponse()

    call_admin(
        broker,
        lambda admin: admin.add_raft_voter(
            3, format_uuid(DIRECTORY), [("CONTROLLER", Endpoint("h", 9093))], cluster_id="c"
        ),
    )

    (request,) = broker.sent(AddRaftVoterRequest)
    assert (request.cluster_id, request.voter_id, request.voter_directory_id) == ("c", 3, DIRECTORY)
    assert [(it.name, it.host, it.port) for it in request.listeners] == [("CONTROLLER", "h", 9093)]


def test_voter_is_removed_by_id_and_directory(broker: Any) -> None:
    broker.scripts[RemoveRaftVoterRequest] = lambda _: RemoveRaftVoterResponse()

    call_admin(broker, lambda admin: admin.remove_raft_voter(3, format_uuid(DIRECTORY)))

    (request,) = broker.sent(RemoveRaftVoterRequest)
    assert (request.cluster_id, request.voter_id, request.voter_directory_id) == (None, 3, DIRECTORY)


def test_error_of_a_missing_voter_has_kafkas_message(broker: Any) -> None:
    broker.scripts[RemoveRaftVoterRequest] = lambda _: RemoveRaftVoterResponse(
        error_code=ErrorCode.VOTER_NOT_FOUND, error_message="no such voter"
    )

    with pytest.raises(KafkaError, match="no such voter") as caught:
        call_admin(broker, lambda admin: admin.remove_raft_voter(3, format_uuid(DIRECTORY)))

    assert caught.value.code is ErrorCode.VOTER_NOT_FOUND


def test_broker_is_unregistered_by_id(broker: Any) -> None:
    broker.scripts[UnregisterBrokerRequest] = lambda _: UnregisterBrokerResponse()

    call_admin(broker, lambda admin: admin.unregister_broker(4))

    assert [request.broker_id for request in broker.sent(UnregisterBrokerRequest)] == [4]


def test_error_of_an_unknown_broker_has_kafkas_message(broker: Any) -> None:
    broker.scripts[UnregisterBrokerRequest] = lambda _: UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="Broker ID 4 is not currently registered."
    )

    with pytest.raises(KafkaError, match="not currently registered"):
        call_admin(broker, lambda admin: admin.unregister_broker(4))
