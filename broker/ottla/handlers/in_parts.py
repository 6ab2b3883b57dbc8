"""Requests with very many entries, passed on in parts: each is decided in well under a millisecond or two.

The active controller decides a request in one go, on one state, and nothing else meanwhile. Where entries are decided
each for itself, a request with thousands of them is asked in parts, and the answers are joined in the client's order.
Entries with the same key stay together, because Kafka rejects what is named twice; of more than two only two are asked
for, so such an entry is answered at most twice.
"""

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.codec import Message

ENTRIES_PER_PART: Final = 32
"""Of a request that is not passed on whole; a new topic takes the controller 50 to 100 us."""
_PARTS_AHEAD: Final = 8
"""Parts that are asked before the first is answered: they are committed together."""


class Entries(NamedTuple):
    """Where a request has its entries, and its response their answers: names of fields.

    ``nested`` are the fields of an entry and of its answer that list what is decided each for itself, as partitions of
    a topic; then `key` is the field that both have in common.
    """

    asked: str
    answered: str
    key: str
    nested: tuple[str, str] | None = None


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
    return sum(1 + len(getattr(entry, entries.nested[0]) or ()) for entry in listed)


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
    return _cut(listed, entries)


def _cut(listed: list[Any], entries: Entries) -> Iterator[list[Any]]:
    """Yield parts of entries whose nested lists are cut."""
    assert entries.nested is not None
    asked, _ = entries.nested
    part: list[Any] = []
    cost = 0
    for entry in listed:
        nested = getattr(entry, asked) or []
        for start in range(0, max(len(nested), 1), ENTRIES_PER_PART):
            piece = copy(entry)
            setattr(piece, asked, nested[start : start + ENTRIES_PER_PART])
            part.append(piece)
            cost += 1 + len(getattr(piece, asked))
            if cost >= ENTRIES_PER_PART:
                yield part
                part, cost = [], 0
    if part:
        yield part


def _join(parts: list[Delayed[Message]], entries: Entries) -> Steps[Message]:
    joined: Message | None = None
    for part in parts:
        response = yield part
        yield None
        if getattr(response, "error_code", 0):
            # An error of the whole request: no controller answers, or the client may not ask.
            return response  # type: ignore[no-any-return]
        if joined is None:
            joined = response
            continue
        answered = getattr(response, entries.answered)
        if hasattr(joined, "throttle_time_ms"):
            joined.throttle_time_ms = max(joined.throttle_time_ms, response.throttle_time_ms)
        known = getattr(joined, entries.answered)
        is_cut = entries.nested is not None and bool(known) and bool(answered)
        if is_cut and getattr(known[-1], entries.key) == getattr(answered[0], entries.key):
            # A topic that was cut between two parts.
            assert entries.nested is not None
            getattr(known[-1], entries.nested[1]).extend(getattr(answered[0], entries.nested[1]))
            del answered[0]
        known += answered
    assert joined is not None, "there was at least one part"
    return joined
