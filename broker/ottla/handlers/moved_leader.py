"""The new leader of a partition in a response, so that the client need not request metadata first (KIP-951)."""

from typing import Protocol

from ottla.handlers.advertised import advertised_endpoint
from ottla.handlers.api import RequestContext
from ottla.types import TopicPartition
from ottla.wire.messages import fetch, produce


class LeaderIdAndEpoch(Protocol):
    """The current_leader field of Produce and Fetch responses."""

    leader_id: int
    leader_epoch: int


def add_moved_leader(
    context: RequestContext,
    current_leader: LeaderIdAndEpoch,
    node_endpoints: "list[produce.NodeEndpoint] | list[fetch.NodeEndpoint]",
    topic: str,
    partition: int,
) -> None:
    """Set ``current_leader`` from the metadata, and add its endpoint unless it is listed already."""
    registration = context.services.metadata.partition(TopicPartition(topic, partition))
    if registration is None:
        return
    current_leader.leader_id = registration.leader
    current_leader.leader_epoch = registration.leader_epoch
    broker = context.services.metadata.broker(registration.leader)
    if broker is None or any(endpoint.node_id == registration.leader for endpoint in node_endpoints):
        return
    endpoint = advertised_endpoint(context, broker)
    if endpoint is not None:
        made = (produce if context.api_key == 0 else fetch).NodeEndpoint(
            node_id=registration.leader, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        node_endpoints.append(made)
