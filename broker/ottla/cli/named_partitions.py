"""Arguments that name topics and partitions: ``flights`` is all partitions of a topic, ``flights-0`` one."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import NotFoundError

if TYPE_CHECKING:
    from ottla.types import TopicPartition

NO_SUCH_PARTITION = "there is no topic or partition {}; ottla topic list shows the existing ones"


def choose_partitions(
    arguments: Sequence[str], known: "Collection[TopicPartition]", *, missing: str = NO_SUCH_PARTITION
) -> "list[TopicPartition]":
    """Return the partitions of ``known`` that ``arguments`` (topics or partitions) name, sorted.

    Raises:
        NotFoundError: one is not in ``known``; the message is ``missing``, with that argument.
    """
    topics = {it.topic for it in known}
    chosen: set[TopicPartition] = set()
    for text in arguments:
        found = [it for it in known if it.topic == text] if text in topics else [it for it in known if str(it) == text]
        if not found:
            raise NotFoundError(missing.format(text))
        chosen.update(found)
    return sorted(chosen)


def parse_partition(text: str) -> "TopicPartition":
    """Read ``TOPIC-N``.

    Raises:
        click.UsageError: ``text`` is not of that form.
    """
    from ottla.types import TopicPartition

    topic, _, number = text.rpartition("-")
    if not topic or not number.isdecimal():
        raise click.UsageError(f"{text!r} is no partition; write TOPIC-N, as flights-0")
    return TopicPartition(topic, int(number))
