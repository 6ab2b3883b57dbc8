"""Topics of a streams group's topology (KIP-1071): their names, the permissions on them, creation of internal ones.

No heartbeat waits for the creation. Its errors are kept for two heartbeat intervals; members receive them as the detail
of the status MISSING_INTERNAL_TOPICS.
Source: KafkaApis.handleStreamsGroupHeartbeat of Apache Kafka 4.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from ottla.errors import ErrorCode
from ottla.groups.streams.topics.configured import StreamsStatus
from ottla.handlers.api import RequestContext
from ottla.handlers.auto_create import create_streams_internal_topics
from ottla.metadata.topic_name import invalid_topic_name_reason
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, batches, split_in_steps
from ottla.quoting import cut_name
from ottla.types import INTERNAL_TOPICS
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages import streams_group_describe, streams_group_heartbeat
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.streams_group_heartbeat import Status, StreamsGroupHeartbeatResponse, Topology

Subtopology: TypeAlias = "streams_group_heartbeat.Subtopology | streams_group_describe.Subtopology"

_MISSING_INTERNAL_TOPICS: Final = int(StreamsStatus.MISSING_INTERNAL_TOPICS)
_NAMES_LISTED_MAX: Final = 20
"""So that a message fits a string of the protocol, which Kafka's might not."""
_ERRORS_LISTED_MAX: Final = 3
_INTERVALS_WITH_ERROR: Final = 2
_NAMES_PER_STEP: Final = 256


def topics_of(subtopology: Subtopology) -> Iterator[str]:
    """Yield the names of source, repartition and changelog topics, in Kafka's order."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name
    for topic in subtopology.state_changelog_topics:
        yield topic.name


def check_topics(context: RequestContext, topology: Topology) -> Steps[StreamsGroupHeartbeatResponse | None]:
    """Return the error of a topology whose topics have wrong names, or may not be described; None if there is none."""
    names = yield from _unique_topics(topology)
    prohibited, _ = yield from split_in_steps(names, INTERNAL_TOPICS.__contains__, per_step=_NAMES_PER_STEP)
    if prohibited:
        return _invalid(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    invalid, _ = yield from split_in_steps(names, lambda name: invalid_topic_name_reason(name) is not None)
    if invalid:
        return _invalid(f"Topic names {_listed(invalid, ',')} are not valid topic names.")
    _, hidden = yield from split_in_steps(names, lambda name: context.may_on_topic(Operation.DESCRIBE, name))
    return StreamsGroupHeartbeatResponse(error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) if hidden else None


def create_internal_topics(
    context: RequestContext, response: StreamsGroupHeartbeatResponse, topics: Mapping[str, CreatableTopic]
) -> Steps[None]:
    """Request ``topics`` from the controller on behalf of the client; add to the response why they are missing."""
    if not context.would_be_allowed(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        _, hidden = yield from split_in_steps(topics, lambda name: context.may_on_topic(Operation.CREATE, name))
        if hidden:
            # As Kafka: then none of them is created, since the group could not start without the others.
            _add_detail(response, f"Unauthorized to CREATE on topics {_listed(hidden, ', ')}.", is_new=True)
            return
    keep_errors_ms = _INTERVALS_WITH_ERROR * response.heartbeat_interval_ms
    yield from create_streams_internal_topics(context, topics, keep_errors_ms=keep_errors_ms)
    errors = context.services.topic_creation_errors
    now_ms = context.services.clock.monotonic_ms()
    failed = []
    for number, name in enumerate(topics, 1):
        message = errors.message(name, now_ms=now_ms)
        if message is not None:
            failed.append(f"{name} ({message})")
        if number % _NAMES_PER_STEP == 0:
            yield None
    if failed:
        more = len(failed) - _ERRORS_LISTED_MAX
        listed = ", ".join(failed[:_ERRORS_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
        _add_detail(response, f"Creation failed: {listed}.", is_new=False)


def _unique_topics(topology: Topology) -> Steps[dict[str, None]]:
    names: dict[str, None] = {}
    for number, subtopology in enumerate(topology.subtopologies, 1):
        for batch in batches(topics_of(subtopology), _NAMES_PER_STEP):
            names.update(dict.fromkeys(batch))
            yield None
        if number % ITEMS_PER_STEP == 0:
            yield None
    return names


def _invalid(message: str) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=int(ErrorCode.STREAMS_INVALID_TOPOLOGY), error_message=message)


def _listed(names: Sequence[str], separator: str) -> str:
    more = len(names) - _NAMES_LISTED_MAX
    listed = separator.join(cut_name(name) for name in names[:_NAMES_LISTED_MAX])
    return listed + (f" and {more} more" if more > 0 else "")


def _add_detail(response: StreamsGroupHeartbeatResponse, detail: str, *, is_new: bool) -> None:
    """Add to the detail of the status MISSING_INTERNAL_TOPICS; without that status, add one if ``is_new``."""
    for status in response.status or ():
        if status.status_code == _MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    if is_new:
        status = Status(status_code=_MISSING_INTERNAL_TOPICS, status_detail=detail)
        response.status = [*(response.status or ()), status]
