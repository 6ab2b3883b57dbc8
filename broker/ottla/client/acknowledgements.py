"""`Acknowledgements`: a share group member's acknowledgements of the records that it has acquired (KIP-932).

Source: Acknowledgements, AcknowledgementBatch (Kafka 4.3).
"""

from collections.abc import Iterable

from ottla.types import Offset
from ottla.wire.acknowledge_type import AcknowledgeType
from ottla.wire.messages.share_fetch import AcknowledgementBatch


class Acknowledgements:
    """The acquired records of one partition, by offset.

    A record is released unless something else is decided: what the application never got must not be accepted.
    """

    def __init__(self) -> None:
        self._types: dict[Offset, AcknowledgeType] = {}

    def __len__(self) -> int:
        return len(self._types)

    def __contains__(self, offset: Offset) -> bool:
        return offset in self._types

    def acquire(self, offsets: Iterable[Offset], delivered: Iterable[Offset]) -> None:
        """Add acquired offsets; those without a record in ``delivered`` are gaps."""
        self._types.update(dict.fromkeys(offsets, AcknowledgeType.GAP))
        self._types.update(dict.fromkeys(delivered, AcknowledgeType.RELEASE))

    def decide(self, offset: Offset, kind: AcknowledgeType) -> None:
        self._types[offset] = kind

    def take(self) -> list[AcknowledgementBatch]:
        """Return everything as the requests list it, and start again with nothing."""
        batches: list[AcknowledgementBatch] = []
        for offset, kind in sorted(self._types.items()):
            last = batches[-1] if batches else None
            if last is not None and last.last_offset == offset - 1:
                last.last_offset = offset
                last.acknowledge_types.append(kind)
            else:
                batches.append(AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind]))
        for batch in batches:
            if len(set(batch.acknowledge_types)) == 1:
                # One type stands for all offsets of the batch.
                del batch.acknowledge_types[1:]
        self._types = {}
        return batches
