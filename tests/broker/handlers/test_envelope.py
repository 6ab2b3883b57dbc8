"""Envelopes: the controller handles a client's request as if the client had sent it there."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.membership.controller_channel import Origin, wrap
from ottla.simulator.world.cluster import CLUSTER_ID, Cluster
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.headers import ResponseHeader
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.registry import ApiKey, response_header_version, response_type
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(seed=3)
    cluster.start()
    cluster.run_until_ready()
    return cluster


def send(cluster: Cluster, node_id: int, envelope: EnvelopeRequest) -> EnvelopeResponse:
    return cluster.connect(node_id, "CONTROLLER").ask(envelope, EnvelopeResponse, 0)


def sealed(request: Message, version: int, *, principal: str = "User:ann", host: str = "10.0.0.9") -> EnvelopeRequest:
    return wrap(request, Origin(version, 77, "admin", principal, host))


def opened(response: EnvelopeResponse, api_key: int, version: int) -> Any:
    assert response.response_data is not None
    key = ApiKey(api_key)
    header, position = ResponseHeader.decode_from(response.response_data, response_header_version(key, version))
    assert header.correlation_id == 77
    return response_type(key).decode(response.response_data, version, position)


@pytest.mark.parametrize("version", [2, 5, 7])
@pytest.mark.parametrize("host", ["10.0.0.9", "fe80::1"])
def test_active_controller_serves_the_inner_request(cluster: Cluster, version: int, host: str) -> None:
    active = cluster.leader_id()
    assert active is not None
    response = send(cluster, active, sealed(CREATE, version, host=host))

    assert response.error_code == ErrorCode.NONE
    assert opened(response, 19, version).topics[0].error_code == ErrorCode.NONE


def test_standby_responds_not_controller_in_the_envelope(cluster: Cluster) -> None:
    standby = next(each for each in cluster.nodes if each != cluster.leader_id())

    assert send(cluster, standby, sealed(CREATE, 7)).error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        pytest.param(sealed(MetadataRequest(), 12), ErrorCode.INVALID_REQUEST, id="not-to-be-passed-on"),
        pytest.param(EnvelopeRequest(request_data=b""), ErrorCode.INVALID_REQUEST, id="empty"),
        pytest.param(EnvelopeRequest(request_data=b"\x7f\xff\0\0"), ErrorCode.INVALID_REQUEST, id="unknown-api"),
        pytest.param(
            EnvelopeRequest(request_data=b"\0\x13\0\x63"), ErrorCode.UNSUPPORTED_VERSION, id="unknown-version"
        ),
        pytest.param(
            EnvelopeRequest(request_data=sealed(CREATE, 7).request_data, client_host_address=bytes(4)),
            ErrorCode.INVALID_REQUEST,
            id="no-principal",
        ),
        pytest.param(
            EnvelopeRequest(
                request_data=sealed(CREATE, 7).request_data,
                request_principal=sealed(CREATE, 7).request_principal,
                client_host_address=b"123",
            ),
            ErrorCode.INVALID_REQUEST,
            id="no-address",
        ),
        pytest.param(
            EnvelopeRequest(
                request_data=sealed(CREATE, 7).request_data[:-3],
                request_principal=sealed(CREATE, 7).request_principal,
                client_host_address=bytes(4),
            ),
            ErrorCode.INVALID_REQUEST,
            id="a-request-that-ends-too-early",
        ),
    ],
)
def test_malformed_envelope_is_rejected(cluster: Cluster, envelope: EnvelopeRequest, error: ErrorCode) -> None:
    active = cluster.leader_id()
    assert active is not None

    assert send(cluster, active, envelope).error_code == error


def test_configuration_of_another_broker_can_be_changed_through_it(cluster: Cluster) -> None:
    standby = next(each for each in cluster.nodes if each != cluster.leader_id())
    change = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
    resource = AlterConfigsResource(resource_type=4, resource_name=str(standby), configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])

    response = cluster.connect(standby).ask(request, IncrementalAlterConfigsResponse, 1)

    assert response.responses[0].error_code == ErrorCode.NONE, response.responses[0].error_message


def test_voters_can_be_changed_through_any_broker(cluster: Cluster) -> None:
    standby = next(each for each in cluster.nodes if each != cluster.leader_id())
    unknown = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=9, voter_directory_id=Uuid(b"x" * 16))
    removed = cluster.connect(standby).ask(unknown, RemoveRaftVoterResponse, 0)
    known = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=standby, voter_directory_id=Uuid(b"y" * 16), timeout_ms=1_000
    )
    added = cluster.connect(standby).ask(known, AddRaftVoterResponse, 1)

    assert removed.error_code == ErrorCode.VOTER_NOT_FOUND
    assert added.error_code != ErrorCode.NONE
    assert added.error_message


def test_topics_created_concurrently_through_every_node_exist(cluster: Cluster) -> None:
    clients = [cluster.connect(node_id) for node_id in cluster.nodes]
    for index, client in enumerate(clients):
        topic = CreatableTopic(name=f"t{index}", num_partitions=1, replication_factor=3)
        response = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), CreateTopicsResponse, 7)
        assert response.topics[0].error_code == ErrorCode.NONE
    cluster.run(1_000)

    assert all(
        sorted(place.node.metadata.image.topics.by_name) == ["t0", "t1", "t2"] for place in cluster.nodes.values()
    )
