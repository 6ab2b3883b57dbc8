"""`Result`: what an operation on a shard has decided to write."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.groups.log import GroupRecord


@dataclass(slots=True, kw_only=True)
class Result:
    """Records to append together, and what they do then.

    Either the shard replays them, or (``replay`` false) memory is ahead of the log already, as that of a classic group
    is. ``on_append`` hears how the write went (NONE when committed, else a coordinator's error) and may write again.
    """

    records: list[GroupRecord] = field(default_factory=list)
    replay: bool = True
    on_append: "Callable[[ErrorCode], Result | None] | None" = None


def append_error_to_response_error(error: ErrorCode) -> ErrorCode:
    """Return what a group's client is told when the log refused a write.

    Source: GroupMetadataManager.appendGroupMetadataErrorToResponseError.
    """
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error
