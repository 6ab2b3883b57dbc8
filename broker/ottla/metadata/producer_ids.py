"""Producer ids that the cluster has handed out to brokers."""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.metadata.records import MetadataRecord
from ottla.types import ProducerId
from ottla.wire.messages.metadata_log import ProducerIdsRecord


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """``next_producer_id`` is the first id that no broker has."""

    next_producer_id: ProducerId = 0

    def records(self) -> Iterator[MetadataRecord]:
        if self.next_producer_id > 0:
            yield MetadataRecord(
                ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id), 0
            )


class ProducerIdsDelta:
    """Changes on the way from one `ProducerIdsImage` to the next."""

    __slots__ = ("image", "next_producer_id")

    def __init__(self, image: ProducerIdsImage) -> None:
        self.image = image
        self.next_producer_id = image.next_producer_id

    def replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def apply(self) -> ProducerIdsImage:
        if self.next_producer_id == self.image.next_producer_id:
            return self.image
        return ProducerIdsImage(self.next_producer_id)
