"""A row of the permission matrix: a request of plain values, so that it can be sent to any server.

The names: topics `orders`, `orders-doomed` and `other` exist, `orders-new` and `nothing` do not; grants by name speak
of those that begin with `orders`. Of the groups, `readers` has offsets, `readers-shared` is a share
group with start offsets, `readers-streams` a streams group without members; `strangers` does not exist.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.errors import ErrorCode
from ottla.handlers.catalog import CATALOG
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.registry import ApiKey, request_type

ORDERS, DOOMED, OTHER, NEW, NOTHING = "orders", "orders-doomed", "other", "orders-new", "nothing"
EXISTING = (ORDERS, DOOMED, OTHER)
ASKED = (ORDERS, OTHER, NEW, NOTHING)
READERS, SHARERS, STREAMERS, STRANGERS = "readers", "readers-shared", "readers-streams", "strangers"
AUTO = "orders-auto"
NO_BROKER = 99
"""The id of no broker."""
FOREIGN_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
NO_SUCH_ID = Uuid(bytes([7] * 16))
METADATA_TOPIC = "__cluster_metadata"
TXN = "payments"
OWNER = "User:bob"
"""Of delegation tokens that another user creates."""


class TargetServer(Protocol):
    """Parts of the target server that a row may use."""

    topic_ids: dict[str, Uuid]

    def restore_topics(self) -> None: ...

    def restore_offsets(self) -> None: ...

    def restore_share_offsets(self) -> None: ...

    def drop_auto_created(self) -> None: ...

    def leave_streams_group(self) -> None: ...


Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One request. ``values`` are its fields in a version; nested structs are dicts."""

    api_key: ApiKey
    name: str
    values: Callable[[TargetServer, int], Values]
    versions: tuple[int, ...] = ()
    """Besides the newest."""
    on_controller: bool = False
    undo: Callable[[TargetServer], None] | None = None
    """Called after a response with ``undone_after`` in it."""
    undone_after: ErrorCode = ErrorCode.NONE
    compares_errors_only: bool = False
    """Compare authorization errors only: the rest of the response differs between servers, or between runs."""

    ignored: frozenset[str] = frozenset()
    """Fields of the response that are not compared, besides those that no row compares."""

    @property
    def title(self) -> str:
        return f"{self.api_key.name.lower()}{'@controller' if self.on_controller else ''} {self.name}".strip()

    @property
    def all_versions(self) -> tuple[int, ...]:
        return (*self.versions, CATALOG[self.api_key].last_version)


def build(kind: type[Any], values: Values) -> Any:
    """Return a struct of plain values."""
    made = {}
    for key, value in values.items():
        field = kind.fields[key]
        inner = getattr(field, "struct_type", None)
        if inner is not None and isinstance(value, list):
            made[key] = [build(inner, each) if isinstance(each, dict) else each for each in value]
        elif inner is not None and isinstance(value, dict):
            made[key] = build(inner, value)
        else:
            made[key] = value
    return kind(**made)


def request_of(row: Row, server: TargetServer, version: int) -> Message:
    made: Message = build(request_type(row.api_key), row.values(server, version))
    return made
