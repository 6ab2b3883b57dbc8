"""`PeriodicElections`: elections by time, limited in number so that requests are not delayed.

- Preferred leaders are elected again when they are in sync (auto.leader.rebalance.enable). Like Kafka's KRaft
  controller this moves every leader that can be moved; leader.imbalance.per.broker.percentage, a setting of the
  ZooKeeper controller, has no effect.
- Partitions without a leader get one at the cost of records, if unclean.leader.election.enable allows it. Usually that
  happens when their last leader fails; this is for partitions whose configuration was changed later.

Source: ReplicationControlManager.maybeBalancePartitionLeaders and maybeElectUncleanLeaders of Apache Kafka 4.3.
"""

import logging
from collections.abc import Iterator
from typing import Final

from ottla.controller.configs import ConfigControl
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.partition_change import Election
from ottla.controller.partition_index import NOWHERE
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER

ELECTIONS_MAX: Final = 1_000
"""In one round; the next follows at once when there are more."""

logger = logging.getLogger(__name__)


class PeriodicElections:
    """Soft state of the active controller: the deadlines of the next rounds.

    Args of the constructor:
        balance_interval_ms: leader.imbalance.check.interval.seconds; None without auto.leader.rebalance.enable.
        unclean_interval_ms: unclean.leader.election.interval.ms.
    """

    def __init__(
        self,
        state: ControllerState,
        configs: ConfigControl,
        leader_and_isr: LeaderAndIsrControl,
        *,
        balance_interval_ms: int | None,
        unclean_interval_ms: int,
    ) -> None:
        self._state = state
        self._configs = configs
        self._leader_and_isr = leader_and_isr
        self._balance_interval_ms = balance_interval_ms
        self._unclean_interval_ms = unclean_interval_ms
        self._next_balance_ms: int | None = None
        self._next_unclean_ms: int | None = None

    def start(self, now_ms: int) -> None:
        """Set the deadlines: this controller has just become active."""
        self._next_balance_ms = None if self._balance_interval_ms is None else now_ms + self._balance_interval_ms
        self._next_unclean_ms = now_ms + self._unclean_interval_ms

    def elect_unclean_soon(self, now_ms: int) -> None:
        """Check partitions without a leader at the next `run_round`: their configuration has changed."""
        self._next_unclean_ms = now_ms

    def run_round(self, now_ms: int) -> ControllerResult[None] | None:
        """Return the elections that are due; None when none is."""
        if self._next_unclean_ms is not None and now_ms >= self._next_unclean_ms:
            self._next_unclean_ms = now_ms + self._unclean_interval_ms
            return ControllerResult(None, self._elect_unclean(now_ms), is_atomic=False)
        if self._next_balance_ms is not None and now_ms >= self._next_balance_ms:
            assert self._balance_interval_ms is not None
            self._next_balance_ms = now_ms + self._balance_interval_ms
            return ControllerResult(None, self._balance(now_ms), is_atomic=False)
        return None

    def next_deadline_ms(self) -> int | None:
        balance_ms, unclean_ms = self._next_balance_ms, self._next_unclean_ms
        if balance_ms is None or unclean_ms is None:
            return unclean_ms if balance_ms is None else balance_ms
        return min(balance_ms, unclean_ms)

    def _balance(self, now_ms: int) -> Iterator[MetadataRecord | None]:
        is_active = self._state.image.cluster.is_active
        versions = self._state.image.features.record_versions
        count = 0
        for topic, partition_id, partition in self._state.at(self._state.index.imbalanced):
            preferred = partition.preferred_replica
            record = None
            if preferred in partition.isr and is_active(preferred):
                change = self._leader_and_isr.change(topic, partition_id)
                change.election = Election.PREFERRED
                record = change.to_record(versions)
            yield record
            count += record is not None
            if count >= ELECTIONS_MAX:
                self._next_balance_ms = now_ms
                break
        if count:
            logger.info("giving %d partitions back to their preferred leaders", count)

    def _elect_unclean(self, now_ms: int) -> Iterator[MetadataRecord | None]:
        versions = self._state.image.features.record_versions
        count = 0
        for topic, partition_id, _ in self._state.at(self._state.index.led.get(NO_LEADER, NOWHERE)):
            record = None
            if self._configs.unclean_election_enabled(topic.name):
                record = self._leader_and_isr.change(topic, partition_id).to_record(versions)
            if record is not None:
                logger.warning(
                    "electing a leader of %s-%d that may lack records: unclean.leader.election.enable allows it",
                    topic.name,
                    partition_id,
                )
            yield record
            count += record is not None
            if count >= ELECTIONS_MAX:
                self._next_unclean_ms = now_ms
                break
