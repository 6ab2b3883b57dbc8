"""Invariants of share groups (KIP-932): no record is lost, delivered after it was finished, or delivered too often.

A record is finished once the leader has confirmed a member's acceptance or rejection, before the member's lock could
time out: that is in the share state by then, with all in-sync replicas. (Kafka confirms a late one, too, if the record
was delivered as often as the limit allows, and does not wait until that is stored.) Of records that are not finished,
see `share_locks`.
"""

from collections.abc import Iterable

from ottla.ports import Clock
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.share_locks import CLOCK_ERROR_MS, LOCK_DURATION_MS
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, Offset, TopicIdPartition
from ottla.wire.acknowledge_type import AcknowledgeType

DELIVERY_COUNT_LIMIT = 5
"""``group.share.delivery.count.limit``, Kafka's default."""

Decisions = dict[Offset, AcknowledgeType]
_STATE_TOPICS = (CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC)
_FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class _Deliveries:
    """Deliveries of one partition's records to a group, as its members observed them."""

    def __init__(self) -> None:
        self.delivery_counts: dict[Offset, int] = {}
        """Of the last time that each record was delivered."""
        self.in_doubt: set[Offset] = set()
        """Accepted or rejected, without a response so far, and not delivered again."""
        self.finished_ms: dict[Offset, int] = {}
        """When the response came that confirmed it."""
        self.lost_responses = 0

    def may_be_tried_enough(self, offset: Offset) -> bool:
        """Return whether the record may have been delivered as often as the limit allows."""
        count = self.delivery_counts.get(offset, 0)
        return count > 0 and count + self.lost_responses >= DELIVERY_COUNT_LIMIT


class ShareGroupInvariants:
    """Called by the members; raises `InvariantViolation`."""

    def __init__(self, state_observer: StateObserver, clock: Clock) -> None:
        self._state_observer = state_observer
        self._clock = clock
        self._partitions: dict[tuple[str, TopicIdPartition], _Deliveries] = {}

    def on_acquired(
        self,
        group: str,
        where: TopicIdPartition,
        offsets: Iterable[Offset],
        *,
        delivery_count: int,
        sent_ms: int,
    ) -> None:
        """A response to a request of ``sent_ms`` gives records to a member."""
        partition = self._partition(group, where)
        if not self._is_excused(where):
            if not 1 <= delivery_count <= DELIVERY_COUNT_LIMIT:
                raise InvariantViolation(
                    f"DeliveredWithinTheLimit: {group} is given records of partition {where.partition} for the "
                    f"{delivery_count}th time"
                )
            for offset in offsets:
                finished_ms = partition.finished_ms.get(offset)
                if finished_ms is not None and finished_ms <= sent_ms:
                    raise InvariantViolation(
                        f"FinishedRecordsAreNotDelivered: {group} is given offset {offset} of partition "
                        f"{where.partition} by a request of {sent_ms} ms; it was finished at {finished_ms} ms"
                    )
        for offset in offsets:
            partition.delivery_counts[offset] = delivery_count
            partition.in_doubt.discard(offset)

    def on_acknowledgements_sent(self, group: str, where: TopicIdPartition, decisions: Decisions) -> None:
        """A member sends these decisions."""
        partition = self._partition(group, where)
        partition.in_doubt.update(offset for offset, kind in decisions.items() if kind in _FINAL)

    def on_response_lost(self, group: str, where: TopicIdPartition) -> None:
        """A request for records had no response: some may have been acquired for it."""
        self._partition(group, where).lost_responses += 1

    def on_acknowledged(self, group: str, where: TopicIdPartition, decisions: Decisions, *, acquired_ms: int) -> None:
        """A leader has confirmed these decisions about records that were requested at ``acquired_ms``."""
        partition = self._partition(group, where)
        now_ms = self._clock.monotonic_ms()
        if now_ms - acquired_ms >= LOCK_DURATION_MS - CLOCK_ERROR_MS:
            return
        for offset, kind in decisions.items():
            if kind in _FINAL:
                partition.finished_ms.setdefault(offset, now_ms)

    def unfinished(self, group: str, where: TopicIdPartition) -> list[Offset]:
        """Return the committed offsets that are still to be delivered; none if the group may have lost something."""
        ledger = self._state_observer.ledger.find(*where)
        if ledger is None or self._is_excused(where):
            return []
        partition = self._partition(group, where)
        return [
            offset
            for offset in range(ledger.deleted_to, ledger.end)
            if offset not in partition.finished_ms
            and offset not in partition.in_doubt
            and not partition.may_be_tried_enough(offset)
        ]

    def _partition(self, group: str, where: TopicIdPartition) -> _Deliveries:
        return self._partitions.setdefault((group, where), _Deliveries())

    def _is_excused(self, where: TopicIdPartition) -> bool:
        """Whether the groups, the share state or the records may have lost something: a new group starts again."""
        return any(
            ledger.is_excused
            for ledger in self._state_observer.ledger.partitions()
            if ledger.key.topic in _STATE_TOPICS or (ledger.key.topic_id, ledger.key.partition) == where
        )
