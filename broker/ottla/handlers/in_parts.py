"""Requests with very many entries, passed on in parts: each is decided in well under a millisecond or two.

The active controller decides a request in one go, on one state, and nothing else meanwhile. Where entries are decided
each for itself, a request with thousands of them is asked in parts, and the answers are joined in the client's order.
Entries with the same key stay together, because Kafka rejects what is named twice; of more than two only two are asked
for, so such an entry is answered at most twice.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, values_in_steps
from ottla.wire.codec import Message

ENTRIES_PER_PART: Final = 32
"""Of a request that is not passed on whole; a new topic takes the controller 50 to 100 us."""
_PARTS_AHEAD: Final = 8
"""Parts that are asked before the first is answered: they are committed together."""


class Entries(NamedTuple):
    """Where a request has its entries, and its response their answers: names of fields.

    ``nested`` says where an entry and its answer list what is decided each for itself, as partitions of a topic; then
    ``key`` is the field that entry and answer have in common, and it is of no use in ``nested``.
    """

    asked: str
    answered: str
    key: str
    nested: "Entries | None" = None


def ask_in_parts(
    request: "Message | SimpleNamespace", entries: Entries, ask: Callable[[Any], Delayed[Message]]
) -> Delayed[Message] | Steps[Message]:
    """Return the answer to ``request``, which is asked whole where it is small.

    Args:
        request: has the entries, and is what ``ask`` takes; a copy of it holds each part.
        entries: where they are.
        ask: passes on a part.
    """
    listed = getattr(request, entries.asked)
    if not listed or _cost(listed, entries) <= ENTRIES_PER_PART:
        return ask(request)
    return _ask_each(request, entries, ask)


def _cost(listed: list[Any], entries: Entries) -> int:
    if entries.nested is None or len(listed) > ENTRIES_PER_PART:
        return len(listed)
    return sum(1 + _cost(getattr(entry, entries.nested.asked) or [], entries.nested) for entry in listed)


def _ask_each(
    request: "Message | SimpleNamespace", entries: Entries, ask: Callable[[Any], Delayed[Message]]
) -> Steps[Message]:
    parts: list[Delayed[Message]] = []
    split = _by_key if entries.nested is None else _by_nested
    for listed in (yield from split(getattr(request, entries.asked), entries)):
        part = copy(request)
        setattr(part, entries.asked, listed)
        parts.append(ask(part))
        yield None
        if len(parts) > _PARTS_AHEAD:
            yield parts[-_PARTS_AHEAD]
    return (yield from _join(parts, entries))


def _by_key(listed: list[Any], entries: Entries) -> Steps[Iterator[list[Any]]]:
    """Return the entries in lists, those with the same key in the same one."""
    if not entries.key:
        return (listed[start : start + ENTRIES_PER_PART] for start in range(0, len(listed), ENTRIES_PER_PART))
    by_key: dict[Hashable, list[Any]] = {}
    for number, entry in enumerate(listed, 1):
        key = tuple(getattr(entry, name) for name in entries.key.split())
        same = by_key.setdefault(key, [])
        if len(same) < 2:
            same.append(entry)
        if number % ENTRIES_PER_PART == 0:
            yield None
    return _in_lists(by_key)


def _in_lists(by_key: dict[Hashable, list[Any]]) -> Iterator[list[Any]]:
    part: list[Any] = []
    keys = list(by_key)
    keys.reverse()
    while keys:
        # Taken out one by one: to free them all at once would take longer than a slice.
        part += by_key.pop(keys.pop())
        if len(part) >= ENTRIES_PER_PART:
            yield part
            part = []
    if part:
        yield part


def _by_nested(listed: list[Any], entries: Entries) -> Steps[Iterator[list[Any]]]:
    yield None
    return (part for part, _ in _cut(listed, entries))


def _cut(listed: list[Any], entries: Entries) -> Iterator[tuple[list[Any], int]]:
    """Yield the entries in parts, each with its cost; entries whose nested lists are long are in several of them."""
    part: list[Any] = []
    cost = 0
    for entry in listed:
        nested_parts: Iterable[tuple[list[Any], int]] = [([], 0)]
        if entries.nested is not None and (nested := getattr(entry, entries.nested.asked)):
            nested_parts = _cut(nested, entries.nested)
        for nested_part, nested_cost in nested_parts:
            piece = entry
            if entries.nested is not None:
                piece = copy(entry)
                setattr(piece, entries.nested.asked, nested_part)
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
            # An error of the whole request: no controller answers, or the client may not ask.
            return response
        if joined is None:
            joined = response
            continue
        if hasattr(joined, "throttle_time_ms"):
            joined.throttle_time_ms = max(joined.throttle_time_ms, response.throttle_time_ms)  # type: ignore[attr-defined]
        _extend(getattr(joined, entries.answered), getattr(response, entries.answered), entries)
    assert joined is not None, "there was at least one part"
    return joined


def _extend(known: list[Any], answered: list[Any], entries: Entries) -> None:
    """Add the answers of a part to those of the parts before it; of an entry that was cut there is one answer."""
    nested = entries.nested
    if nested is not None and known and answered:
        last, first = known[-1], answered[0]
        if getattr(last, entries.key) == getattr(first, entries.key):
            _extend(getattr(last, nested.answered), getattr(first, nested.answered), nested)
            del answered[0]
    known += answered
