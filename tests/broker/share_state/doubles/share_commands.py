"""Commands of recorded scenarios, as requests about the state of share-partitions, and the responses as lines."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.types import ZERO_UUID, Uuid, format_uuid
from ottla.wire.codec import Message
from ottla.wire.messages import delete_share_group_state as delete_messages
from ottla.wire.messages import initialize_share_group_state as initialize_messages
from ottla.wire.messages import read_share_group_state as read_messages
from ottla.wire.messages import read_share_group_state_summary as summary_messages
from ottla.wire.messages import write_share_group_state as write_messages
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

UNKNOWN_ID = Uuid(b"no such topic   ")
_MESSAGES = {
    "initialize": (
        initialize_messages,
        initialize_messages.InitializeShareGroupStateRequest,
        initialize_messages.InitializeStateData,
    ),
    "read": (read_messages, read_messages.ReadShareGroupStateRequest, read_messages.ReadStateData),
    "summary": (
        summary_messages,
        summary_messages.ReadShareGroupStateSummaryRequest,
        summary_messages.ReadStateSummaryData,
    ),
    "write": (write_messages, write_messages.WriteShareGroupStateRequest, write_messages.WriteStateData),
    "delete": (delete_messages, delete_messages.DeleteShareGroupStateRequest, delete_messages.DeleteStateData),
}


class Topics:
    """Names of topics in a scenario: those of the cluster, ``unknown`` and ``zero``."""

    def __init__(self, ids: dict[str, Uuid]) -> None:
        self.ids = {"unknown": UNKNOWN_ID, "zero": ZERO_UUID, **ids}
        self.names = {topic_id: name for name, topic_id in self.ids.items()}


def to_request(line: str, topics: Topics) -> tuple[Message, int]:
    """Return request and version of ``API vN GROUP TOPIC PARTITION FIELD=VALUE ...; TOPIC PARTITION ...``.

    ``-`` is the empty group; a topic without a partition has none. ``batches=FIRST-LAST:STATE:COUNT,...``
    """
    api, version, group, *rest = line.split(" ", 3)
    if api == "find":
        keys = line.split(" ", 2)[2]
        for name, topic_id in topics.ids.items():
            keys = keys.replace("{" + name + "}", format_uuid(topic_id))
        keys_or_key = {"coordinator_keys": keys.split(" ")} if int(version[1:]) >= 4 else {"key": keys}
        return FindCoordinatorRequest(key_type=2, **keys_or_key), int(version[1:])
    module, request_type, topic_type = _MESSAGES[api]
    by_topic: list[Any] = []
    for part in rest[0].split("; ") if rest else []:
        name, *words = part.split(" ")
        topic_id = topics.ids[name]
        if not by_topic or by_topic[-1].topic_id != topic_id:
            by_topic.append(topic_type(topic_id=topic_id, partitions=[]))
        if words:
            fields = dict(word.split("=") for word in words[1:])
            by_topic[-1].partitions.append(_partition(module, int(words[0]), fields))
    return request_type(group_id="" if group == "-" else group, topics=by_topic), int(version[1:])


def _partition(module: Any, index: int, fields: dict[str, str]) -> Any:
    batches = fields.pop("batches", None)
    partition = module.PartitionData(partition=index, **{name: int(value) for name, value in fields.items()})
    if batches is not None:
        for batch in filter(None, batches.split(",")):
            offsets, state, count = batch.split(":")
            first, last = offsets.split("-")
            partition.state_batches.append(
                module.StateBatch(
                    first_offset=int(first),
                    last_offset=int(last),
                    delivery_state=int(state),
                    delivery_count=int(count),
                )
            )
    return partition


def to_lines(response: Any, topics: Topics) -> list[str]:
    """Return one line per partition or key, ordered by topic and partition: Kafka's order is that of a hash table."""
    if isinstance(response, FindCoordinatorResponse):
        results = response.coordinators or [response]
        return [f"{_error(it)} {'a node' if it.node_id >= 0 else 'no node'}" for it in results]
    lines = [
        f"{topics.names[topic.topic_id]} {partition.partition} {_error(partition)}{_state(partition)}"
        for topic in sorted(response.results, key=lambda topic: topics.names[topic.topic_id])
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition)
    ]
    return lines or ["no results"]


def _error(result: Any) -> str:
    name = ErrorCode(result.error_code).name
    return name if result.error_message is None else f"{name} ({result.error_message})"


def _state(partition: Any) -> str:
    names = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
    fields = [f" {name}={getattr(partition, name)}" for name in names if hasattr(partition, name)]
    batches = getattr(partition, "state_batches", None)
    if batches is not None:
        shown = [f"{it.first_offset}-{it.last_offset}:{it.delivery_state}:{it.delivery_count}" for it in batches]
        fields.append(f" batches={','.join(shown)}")
    return "".join(fields)
