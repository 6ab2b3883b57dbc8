"""The delivery states of records, as batches of offsets: merging a write into what is stored.

Of batches that overlap, the one that was delivered more often counts; with equal counts the one with the greater
delivery state, so that a record that is acknowledged or archived stays so. Adjacent batches with equal states become
one.

Kafka's class leaves two such batches apart in one case (a batch that begins with another and covers it) until the
next merge. Ours are always joined: readers cannot tell the difference, since a batch stands for its offsets.

Source: PersisterStateBatchCombiner of Apache Kafka 4.3.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Final, TypeAlias

from ottla.purgatory.steps import Steps
from ottla.purgatory.steps import batches as in_batches
from ottla.share_state.persister import UNINITIALIZED_OFFSET, StateBatch
from ottla.types import Offset

Batches: TypeAlias = tuple[StateBatch, ...]
"""Disjoint, ordered by offset, adjacent ones in different states."""

_BATCHES_PER_STEP: Final = 32

_first_offset: Callable[[StateBatch], Offset] = itemgetter(0)
_last_offset: Callable[[StateBatch], Offset] = itemgetter(1)


def combine(stored: Batches, written: Iterable[StateBatch], start_offset: Offset) -> Batches:
    """Return ``stored`` with ``written`` merged into it, both from ``start_offset`` on (-1 for all).

    Only the stored batches that the written ones touch are merged: an acknowledgement costs the same whether ten or
    thousands of records are in flight.

    Args:
        stored: the result of an earlier call.
        written: in any order, overlapping or not; a batch that ends before it begins is ignored.
        start_offset: what is before it is dropped.
    """
    if start_offset != UNINITIALIZED_OFFSET and stored and stored[0].first_offset < start_offset:
        stored = tuple(_cut(stored[bisect_left(stored, start_offset, key=_last_offset) :], start_offset))
    new = _cut(written, start_offset)
    if not new:
        return stored
    # The batches next to the first and the last one are included: they may be joined.
    first = bisect_left(stored, min(map(_first_offset, new)) - 1, key=_last_offset)
    end = bisect_right(stored, max(map(_last_offset, new)) + 1, lo=first, key=_first_offset)
    merged = _flatten([*stored[first:end], *new])
    return (*stored[:first], *merged, *stored[end:])


def combine_in_steps(written: Iterable[StateBatch]) -> Steps[Batches]:
    """Return what `combine` returns if nothing is stored; yield after some batches each, which are mostly in order."""
    combined: list[StateBatch] = []
    for some in in_batches(written, _BATCHES_PER_STEP):
        if not combined:
            combined = list(combine((), some, UNINITIALIZED_OFFSET))
            continue
        yield None
        if min(map(_first_offset, some)) > combined[-1].first_offset:
            # Only the last one may be touched, and not at its first offset: those before it stay as they are.
            combined += combine((combined.pop(),), some, UNINITIALIZED_OFFSET)
        else:
            combined = list(combine(tuple(combined), some, UNINITIALIZED_OFFSET))
    return tuple(combined)


def _cut(batches: Iterable[StateBatch], start_offset: Offset) -> list[StateBatch]:
    """Return the batches from ``start_offset`` on."""
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset and batch.last_offset >= batch.first_offset
    ]


def _flatten(batches: list[StateBatch]) -> list[StateBatch]:
    """Return disjoint, ordered and joined batches with the state that counts at each offset.

    A sweep over the offsets: the heap has the batches that begin at or before the current one, the state that counts
    first. It takes n log n time for n batches, however they overlap.
    """
    if len(batches) == 1:
        return batches
    batches.sort(key=_first_offset)
    if _are_disjoint(batches):
        return _join(batches)
    # Nearly always the write has the same batches as what is stored, in another state.
    batches = _without_equal_offsets(batches)
    if _are_disjoint(batches):
        return _join(batches)
    flat: list[StateBatch] = []
    open_batches: list[tuple[int, int, Offset]] = []
    index = 0
    offset = 0
    while index < len(batches) or open_batches:
        if not open_batches:
            offset = batches[index].first_offset
        while index < len(batches) and batches[index].first_offset <= offset:
            _, last, state, count = batches[index]
            heappush(open_batches, (-count, -state, last))
            index += 1
        count, state, last = open_batches[0]
        if last < offset:
            heappop(open_batches)
            continue
        if index < len(batches):
            last = min(last, batches[index].first_offset - 1)
        flat.append(StateBatch(offset, last, -state, -count))
        offset = last + 1
    return _join(flat)


def _without_equal_offsets(batches: list[StateBatch]) -> list[StateBatch]:
    """Return ordered batches; of successive ones with the same offsets only the one that counts."""
    kept = batches[:1]
    for batch in batches[1:]:
        first, last, state, count = kept[-1]
        if batch[0] != first or batch[1] != last:
            kept.append(batch)
        elif (batch[3], batch[2]) > (count, state):
            kept[-1] = batch
    return kept


def _are_disjoint(batches: Sequence[StateBatch]) -> bool:
    return all(batch[1] < following[0] for batch, following in pairwise(batches))


def _join(batches: list[StateBatch]) -> list[StateBatch]:
    """Return ordered, disjoint batches with adjacent ones in the same state joined."""
    joined = batches[:1]
    for batch in batches[1:]:
        before = joined[-1]
        if before[1] + 1 == batch[0] and before[2:] == batch[2:]:
            joined[-1] = before._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined
