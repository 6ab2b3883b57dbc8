"""The partition of the group ``g`` in the tests' node: its log, and errors of commits to it."""

from typing import Any

from ottla.coordinator.partitioner import partition_for_key
from ottla.errors import ErrorCode
from ottla.groups.log import GROUP_RECORD_SERDE
from ottla.wire.records import parse_batch

PARTITION = partition_for_key("g", 4)
encode_batch = GROUP_RECORD_SERDE.encode_batch


def error_of_commit(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


def load_log(node: Any, batches: list[bytes]) -> None:
    """Restart the coordinator with ``batches`` in the group's partition."""
    node.log.batches[PARTITION] = [parse_batch(bytearray(batch)) for batch in batches]
    node.restart()
