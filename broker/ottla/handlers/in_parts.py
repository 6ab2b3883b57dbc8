"""Requests with very many entries, forwarded in parts, each of which the controller decides in a millisecond or two.

The active controller decides a request without yielding, on one state. If the entries of a request are independent, a
request with thousands of them is forwarded in parts, and the results are joined in the client's order. Entries with the
same key stay together, because Kafka rejects duplicates; of more than two duplicates only two are forwarded, so such an
entry has at most two results.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, values_in_steps
from ottla.wire.codec import Message

ENTRIES_PER_PART: Final = 32
"""Entries in a part; the controller needs 50 to 100 us for a new topic."""
_SHARDS: Final = 256
"""Dictionaries that the keys of a request's entries are divided among, by their hash."""
_PARTS_AHEAD: Final = 8
"""Parts that are sent before the first response arrives: they are committed together."""


class Entries(NamedTuple):
    """Names of the fields with the entries of a request, and with their results in its response.

    ``nested`` names the fields of entries and results that list independent parts, such as partitions of a topic; then
    ``key`` is the field that an entry and its result have in common. It is not used in ``nested``.
    """

    request_field: str
    response_field: str
    key: str
    nested: "Entries | None" = None


def forward_in_parts(
    request: "Message | SimpleNamespace", entries: Entries, forward: Callable[[Any], Delayed[Message]]
) -> Delayed[Message] | Steps[Message]:
    """Return the response to ``request``, which is forwarded whole if it is small.

    Args:
        request: has the entries, and is what ``forward`` takes; a copy of it contains each part.
        entries: the fields with the entries.
        forward: sends a part to the controller.
    """
    listed = getattr(request, entries.request_field)
    if not listed or _cost(listed, entries) <= ENTRIES_PER_PART:
        return forward(request)
    return _forward_parts(request, entries, forward)


def _cost(listed: list[Any], entries: Entries) -> int:
    if entries.nested is None or len(listed) > ENTRIES_PER_PART:
        return len(listed)
    return sum(1 + _cost(getattr(entry, entries.nested.request_field) or [], entries.nested) for entry in listed)


def _forward_parts(
    request: "Message | SimpleNamespace", entries: Entries, forward: Callable[[Any], Delayed[Message]]
) -> Steps[Message]:
    parts: list[Delayed[Message]] = []
    split = _by_key if entries.nested is None else _by_nested
    for listed in (yield from split(getattr(request, entries.request_field), entries)):
        part = copy(request)
        setattr(part, entries.request_field, listed)
        parts.append(forward(part))
        yield None
        if len(parts) > _PARTS_AHEAD:
            yield parts[-_PARTS_AHEAD]
    return (yield from _join(parts, entries))


def _by_key(listed: list[Any], entries: Entries) -> Steps[Iterator[list[Any]]]:
    """Return the entries in lists, duplicates of a key in the same list."""
    if not entries.key:
        return (listed[start : start + ENTRIES_PER_PART] for start in range(0, len(listed), ENTRIES_PER_PART))
    # Many small dictionaries: one of 90,000 keys is copied as a whole when it grows, in up to 14 ms.
    shards: list[dict[Hashable, list[Any]]] = [{} for _ in range(_SHARDS)]
    in_order: list[list[Any]] = []
    for number, entry in enumerate(listed, 1):
        key = tuple(getattr(entry, name) for name in entries.key.split())
        shard = shards[hash(key) % _SHARDS]
        same = shard.get(key)
        if same is None:
            same = shard[key] = []
            in_order.append(same)
        if len(same) < 2:
            same.append(entry)
        if number % ENTRIES_PER_PART == 0:
            yield None
    while shards:
        # Freed one by one: freeing all at once would take longer than a slice.
        shards.pop()
        yield None
    in_order.reverse()
    return _in_lists(in_order)


def _in_lists(reversed_groups: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield the entries of the groups, the last group first, in lists; ``reversed_groups`` is empty afterwards."""
    part: list[Any] = []
    while reversed_groups:
        # Removed one by one: freeing all at once would take longer than a slice.
        part += reversed_groups.pop()
        if len(part) >= ENTRIES_PER_PART:
            yield part
            part = []
    if part:
        yield part


def _by_nested(listed: list[Any], entries: Entries) -> Steps[Iterator[list[Any]]]:
    yield None
    return (part for part, _ in _cut(listed, entries))


def _cut(listed: list[Any], entries: Entries) -> Iterator[tuple[list[Any], int]]:
    """Yield the entries in parts, each with its cost; an entry with a long nested list is split over several parts."""
    part: list[Any] = []
    cost = 0
    for entry in listed:
        nested_parts: Iterable[tuple[list[Any], int]] = [([], 0)]
        if entries.nested is not None and (nested := getattr(entry, entries.nested.request_field)):
            nested_parts = _cut(nested, entries.nested)
        for nested_part, nested_cost in nested_parts:
            piece = entry
            if entries.nested is not None:
                piece = copy(entry)
                setattr(piece, entries.nested.request_field, nested_part)
            part.append(piece)
            cost += 1 + nested_cost
            if cost >= ENTRIES_PER_PART:
                yield part, cost
                part, cost = [], 0
    if part:
        yield part, cost


def _join(parts: list[Delayed[Message]], entries: Entries) -> Steps[Message]:
    joined: Message | None = None
    for response in (yield from values_in_steps(parts)):
        yield None
        if getattr(response, "error_code", 0):
            # An error of the whole request: no active controller, or the client is not authorized.
            return response
        if joined is None:
            joined = response
            continue
        if hasattr(joined, "throttle_time_ms"):
            joined.throttle_time_ms = max(joined.throttle_time_ms, response.throttle_time_ms)  # type: ignore[attr-defined]
        _extend(getattr(joined, entries.response_field), getattr(response, entries.response_field), entries)
    assert joined is not None, "there was at least one part"
    return joined


def _extend(known: list[Any], added: list[Any], entries: Entries) -> None:
    """Add the results of a part to those of earlier parts; an entry that was split has one result."""
    nested = entries.nested
    if nested is not None and known and added:
        last, first = known[-1], added[0]
        if getattr(last, entries.key) == getattr(first, entries.key):
            _extend(getattr(last, nested.response_field), getattr(first, nested.response_field), nested)
            del added[0]
    known += added
