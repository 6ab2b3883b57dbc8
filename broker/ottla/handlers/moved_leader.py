"""The new leader of a partition in a response, so that the client need not request metadata first (KIP-951)."""

from typing import Any, Protocol

from ottla.handlers.advertised import advertised_endpoint
from ottla.handlers.api import RequestContext
from ottla.types import TopicPartition
from ottla.wire.messages import fetch, produce, share_acknowledge, share_fetch
from ottla.wire.messages.registry import ApiKey

_MODULES = {ApiKey.PRODUCE: produce, ApiKey.SHARE_FETCH: share_fetch, ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge}
"""Each response has an endpoint type of its own; Fetch's is the default."""


class LeaderIdAndEpoch(Protocol):
    """The current_leader field of Produce and Fetch responses."""

    leader_id: int
    leader_epoch: int


def add_moved_leader(
    context: RequestContext,
    current_leader: LeaderIdAndEpoch,
    node_endpoints: list[Any],
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
        module: Any = _MODULES.get(ApiKey(context.api_key), fetch)
        made = module.NodeEndpoint(
            node_id=registration.leader, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        node_endpoints.append(made)
