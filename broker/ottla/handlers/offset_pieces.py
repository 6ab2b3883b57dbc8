"""OffsetCommit and TxnOffsetCommit of very many partitions: in pieces, whose results are merged by topic.

One commit of all of them would block the loop, and would not fit into one batch of the log. Offsets are independent of
each other, as in Kafka.
"""

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

from ottla.purgatory.steps import Steps

_PARTITIONS_PER_COMMIT: Final = 128
_TOPICS_PER_STEP: Final = 128


class _Topic(Protocol):
    partitions: list[Any]


TopicT = TypeVar("TopicT", bound=_Topic)


def pieces_of_commit(topics: list[TopicT]) -> Iterator[list[TopicT]]:
    """Yield the topics of a request, or parts of them, for separate commits."""
    piece: list[TopicT] = []
    room = _PARTITIONS_PER_COMMIT
    for topic in topics:
        for start in range(0, len(topic.partitions), _PARTITIONS_PER_COMMIT):
            part = copy(topic)
            part.partitions = topic.partitions[start : start + _PARTITIONS_PER_COMMIT]
            if len(part.partitions) > room:
                yield piece
                piece, room = [], _PARTITIONS_PER_COMMIT
            piece.append(part)
            room -= len(part.partitions)
    if piece:
        yield piece


def merge_topics(parts: list[list[TopicT]], key: Callable[[TopicT], Hashable]) -> Steps[list[TopicT]]:
    """Return the topics of all responses, each once."""
    by_key: dict[Hashable, TopicT] = {}
    for number, topic in enumerate(chain.from_iterable(parts), 1):
        merged = by_key.setdefault(key(topic), topic)
        if merged is not topic:
            merged.partitions += topic.partitions
        if number % _TOPICS_PER_STEP == 0:
            yield None
    return list(by_key.values())
