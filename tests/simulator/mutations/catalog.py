"""Mutations: each breaks one invariant on purpose, by replacing one function of the broker.

The simulator has to find every one of them; how soon is measured (`python tests/simulator/mutations/catalog.py`) and
written into docs/simulator.md.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hunting import Apply, SetAttribute, measure
from ottla.controller.alter_partition import AlterPartitionControl
from ottla.controller.last_known_leaders import LastKnownLeaders
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.partition_change import PartitionChange
from ottla.handlers.api import RequestContext
from ottla.log import partition_log, producer_state, retention
from ottla.log.cleaner import cleaning, dirty_log
from ottla.log.cleaner.cleaned_transactions import CleanedTransactions
from ottla.log.cleaner.cleaning import CleanedGroup, Cleaning
from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.cleaner.segment_groups import SourceSegment
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segments import Segments
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.node.node import Node
from ottla.raft import quorum_state_file, unattached
from ottla.raft.leader import LeaderState
from ottla.replication import replica_fetcher
from ottla.replication.fetch.consumer_fetch import ConsumerFetch
from ottla.replication.fetch.fetch_round import FetchRound
from ottla.replication.follower_syncs import FollowerSyncs
from ottla.replication.isr.partition_isr import IsrEvent, IsrState, PartitionIsr
from ottla.replication.isr.remote_replica import RemoteReplica
from ottla.replication.partition import Partition
from ottla.replication.peer_brokers import Brokers
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.security.authorizer import AclAuthorizer
from ottla.simulator.runs.simulation import Outcome, Simulation
from ottla.simulator.world.disk import SimulatedFile
from ottla.wire.acl_codes import Operation
from ottla.wire.records import RecordBatch, build_batch, read_records

RUN_MS = 20_000
SEEDS_MAX = 60
"""The default of ``seeds_max``."""


class Mutation(NamedTuple):
    """``seeds_max``: the last seed by which it has to be found; None if a scenario has to find it.

    ``seeds_from`` and ``seeds_step`` leave out seeds whose runs have nothing of the kind. ``known_seed`` is tried
    before the others: it found the mutation when it was measured, and does so until runs change.
    """

    name: str
    seeds_max: int | None
    apply: Apply
    seeds_from: int = 1
    seeds_step: int = 1
    known_seed: int | None = None

    @property
    def seeds(self) -> Sequence[int]:
        seeds = range(self.seeds_from, (self.seeds_max or SEEDS_MAX) + 1, self.seeds_step)
        return seeds if self.known_seed is None else [self.known_seed, *seeds]

    def runs(self, seed: int) -> Iterator[Outcome]:
        yield Simulation(seed).run(RUN_MS)

    def place(self, outcome: Outcome) -> str:
        return str(outcome.seed)


MUTATIONS: list[Mutation] = []


def mutation(
    name: str, *, seeds_max: int | None, seeds_from: int = 1, seeds_step: int = 1, known_seed: int | None = None
) -> Callable[[Apply], Apply]:
    def register(apply: Apply) -> Apply:
        MUTATIONS.append(Mutation(name, seeds_max, apply, seeds_from, seeds_step, known_seed))
        return apply

    return register


@mutation("acks=all is acknowledged before it is replicated", seeds_max=20)
def _acknowledge_early(set_attribute: SetAttribute) -> None:
    set_attribute(Partition, "is_committed", lambda self, last_offset: True)


@mutation("the high watermark ignores the in-sync set", seeds_max=20)
def _high_watermark_alone(set_attribute: SetAttribute) -> None:
    def advance(self: Partition, now_ms: int) -> bool:
        if self.log.log_end_offset <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(self.log.log_end_offset)
        return True

    set_attribute(Partition, "advance_high_watermark", advance)


@mutation("consumers read up to the log end", seeds_max=20)
def _read_uncommitted(set_attribute: SetAttribute) -> None:
    def read(
        self: Partition, start_offset: int, *, size_bytes_max: int, at_least_one: bool, read_committed: bool
    ) -> Any:
        return self.log.read(start_offset, size_bytes_max=size_bytes_max, at_least_one=at_least_one)

    set_attribute(Partition, "read_for_consumer", read)
    set_attribute(
        ConsumerFetch,
        "_has_new_data",
        lambda self, partition, wanted: partition.log.log_end_offset > wanted.fetch_offset,
    )


@mutation("followers never truncate what has diverged", seeds_max=None)
def _never_truncate(set_attribute: SetAttribute) -> None:
    set_attribute(Partition, "divergence", lambda self, fetch_offset, last_fetched_epoch: None)


@mutation("followers truncate to their high watermark", seeds_max=60, known_seed=5)
def _truncate_to_high_watermark(set_attribute: SetAttribute) -> None:
    follow = Partition.follow

    def truncating(self: Partition, registration: Any) -> bool:
        is_news = follow(self, registration)
        if is_news:
            self.log.truncate_to(self.log.high_watermark)
        return is_news

    set_attribute(Partition, "follow", truncating)


@mutation("a diverged follower cuts its log at the high watermark that it knows", seeds_max=None)
def _cut_at_known_high_watermark(set_attribute: SetAttribute) -> None:
    set_attribute(replica_fetcher, "truncation_offset", lambda log, diverging: log.high_watermark)


@mutation("progress of followers outlives the leader's epoch", seeds_max=None)
def _keep_what_is_known(set_attribute: SetAttribute) -> None:
    start_epoch = RemoteReplica.start_epoch

    def keep_everything(self: RemoteReplica, *, is_new_leader: bool, **how: Any) -> None:
        start_epoch(self, is_new_leader=False, **how)

    set_attribute(RemoteReplica, "start_epoch", keep_everything)


@mutation("fetches of every leader epoch are served", seeds_max=None)
def _serve_every_epoch(set_attribute: SetAttribute) -> None:
    set_attribute(Partition, "require_epoch", lambda self, current_leader_epoch: None)


@mutation("repeated batches of idempotent producers are appended again", seeds_max=20, known_seed=5)
def _ignore_duplicates(set_attribute: SetAttribute) -> None:
    set_attribute(producer_state.ProducerState, "find_duplicate", lambda self, batch: None)
    set_attribute(producer_state.ProducerState, "_check_sequence", lambda self, entry, batch, offset: None)


@mutation("producer state is lost at a restart", seeds_max=60, known_seed=23)
def _lose_producers(set_attribute: SetAttribute) -> None:
    opened = PartitionLog.open.__func__  # type: ignore[attr-defined]

    def with_record_reset(cls: type[PartitionLog], **arguments: Any) -> PartitionLog:
        log: PartitionLog = opened(cls, **arguments)
        log._local.producers.clear(log.log_end_offset)
        return log

    set_attribute(PartitionLog, "open", classmethod(with_record_reset))


@mutation("a broker leads before it has registered again", seeds_max=60, known_seed=3)
def _lead_at_once(set_attribute: SetAttribute) -> None:
    start = Node.start

    def early(self: Node) -> None:
        start(self)
        if self._lifecycle is not None and not self._leads_and_follows:
            self._leads_and_follows = True
            self._loader.add_publisher(self.replicas.metadata_publisher)
            self._lifecycle.set_ready_to_unfence()

    set_attribute(Node, "start", early)


@mutation("a broker that lost power stays in sync", seeds_max=60, known_seed=2)
def _trust_unclean(set_attribute: SetAttribute) -> None:
    set_attribute(LeaderAndIsrControl, "on_unclean_shutdown", lambda self, broker_id, directories: [])


@mutation("fenced brokers stay in the in-sync set", seeds_max=20)
def _keep_fenced(set_attribute: SetAttribute) -> None:
    set_attribute(LeaderAndIsrControl, "on_fenced", lambda self, broker_id: [])


@mutation("fenced brokers are taken into the in-sync set", seeds_max=60)
def _expand_to_fenced(set_attribute: SetAttribute) -> None:
    set_attribute(Brokers, "may_join_isr", lambda self, broker_id, fetched_epoch: True)
    set_attribute(AlterPartitionControl, "_is_ineligible", lambda self, replica: False)


@mutation("followers join the in-sync set before they have caught up", seeds_max=160, known_seed=101)
def _expand_early(set_attribute: SetAttribute) -> None:
    def propose(self: PartitionIsr, *, own_broker_epoch: int, **what_is_known: Any) -> Any:
        outside = [broker for broker in self.remote if broker not in self.in_sync]
        if self.state is not IsrState.COMMITTED or not outside:
            return None
        isr = (*self.in_sync, outside[0])
        self._enter(IsrEvent.CAUGHT_UP)
        return self._propose(isr, maximal=self.in_sync, own_broker_epoch=own_broker_epoch)

    set_attribute(PartitionIsr, "on_expansion_check", propose)


@mutation("any living replica may be elected", seeds_max=60, known_seed=2)
def _elect_any_replica(set_attribute: SetAttribute) -> None:
    elect = PartitionChange._elect

    def unclean(self: PartitionChange, target: Any, elr: Any) -> tuple[int, bool]:
        for replica in target.replicas:
            if self.may_lead(replica):
                return replica, replica not in target.isr
        return elect(self, target, elr)

    set_attribute(PartitionChange, "_elect", unclean)


@mutation("fetch sessions are not notified of new records", seeds_max=60, known_seed=2)
def _report_no_sessions(set_attribute: SetAttribute) -> None:
    set_attribute(FetchRound, "_watch", lambda self, session, key, fetched: None)


@mutation("the leader of a partition is taken at its word: any high watermark of a follower", seeds_max=60)
def _high_watermark_of_leader(set_attribute: SetAttribute) -> None:
    append = ReplicaFetcher._append

    def credulous(self: ReplicaFetcher, followed: Any, data: Any) -> None:
        data.high_watermark = max(data.high_watermark, 1 << 40) if data.records else data.high_watermark
        append(self, followed, data)

    set_attribute(ReplicaFetcher, "_append", credulous)


@mutation("the quorum commits what its leader alone has", seeds_max=60)
def _commit_alone(set_attribute: SetAttribute) -> None:
    def advance(self: LeaderState) -> bool:
        if self.synced_offset <= max(self.epoch_start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = self.synced_offset
        return True

    set_attribute(LeaderState, "_advance", advance)


@mutation("the quorum counts replicas of records of earlier epochs", seeds_max=60, known_seed=2)
def _commit_by_count(set_attribute: SetAttribute) -> None:
    def advance(self: LeaderState) -> bool:
        voters = self.voters.voters.values()
        own = self.local.node_id
        offsets = sorted(self.synced_offset if each.node_id == own else self.offset_of(each.key) for each in voters)
        candidate = offsets[(len(offsets) - 1) // 2]
        if candidate <= (self.high_watermark or 0):
            return False
        self.high_watermark = candidate
        return True

    set_attribute(LeaderState, "_advance", advance)


@mutation("a voter grants every vote request", seeds_max=100, known_seed=18)
def _vote_twice(set_attribute: SetAttribute) -> None:
    def grants(leader_id: Any, voted_key: Any, candidate: Any, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return is_log_up_to_date

    for module in (unattached, sys.modules["ottla.raft.prospective"], sys.modules["ottla.raft.resigned"]):
        if hasattr(module, "grants_without_leader"):
            set_attribute(module, "grants_without_leader", grants)


@mutation("votes are not synced to the disk", seeds_max=100, known_seed=2)
def _lose_votes(set_attribute: SetAttribute) -> None:
    def write(disk: Any, path: str, text: str, *, sync: bool = True) -> None:
        file = disk.open(path, create=True)
        file.truncate(0)
        file.pwritev([text.encode()], 0)
        file.close()

    set_attribute(quorum_state_file, "write_text", write)


@mutation("the metadata log is not synced before it counts", seeds_max=100, known_seed=7)
def _skip_log_sync(set_attribute: SetAttribute) -> None:
    sync = SimulatedFile.sync

    def lying(self: SimulatedFile) -> None:
        if not ("__cluster_metadata" in self.path and self.path.endswith(".log")):
            sync(self)

    set_attribute(SimulatedFile, "sync", lying)


@mutation("retention deletes records a second before their time", seeds_max=60, known_seed=11)
def _delete_young(set_attribute: SetAttribute) -> None:
    def impatient(*arguments: Any, now_ms: int, **offsets: Any) -> Any:
        return deletable_segments(*arguments, now_ms=now_ms + 1_000, **offsets)

    deletable_segments = retention.deletable_segments
    set_attribute(partition_log, "deletable_segments", impatient)


@mutation("retention leaves one segment less than retention.bytes asks for", seeds_max=60, known_seed=3)
def _delete_one_more(set_attribute: SetAttribute) -> None:
    def excess_bytes(segments: Segments, config: LogConfig) -> int:
        excess = known_excess_bytes(segments, config)
        return excess if excess < 0 else excess + segments.first.size_bytes

    known_excess_bytes = retention._excess_bytes
    set_attribute(retention, "_excess_bytes", excess_bytes)


@mutation("retention deletes what is not committed yet", seeds_max=60)
def _delete_uncommitted(set_attribute: SetAttribute) -> None:
    def hasty(*arguments: Any, high_watermark: int, **others: Any) -> Any:
        return deletable_segments(*arguments, high_watermark=others["log_end_offset"], **others)

    deletable_segments = retention.deletable_segments
    set_attribute(partition_log, "deletable_segments", hasty)


@mutation("the log starts at the next segment when the oldest has half of its time behind it", seeds_max=60)
def _start_late(set_attribute: SetAttribute) -> None:
    apply_retention = PartitionLog._apply_retention

    def late(self: PartitionLog, now_ms: int) -> Any:
        segments = list(self._local.segments)
        age_ms = segments[0].age_ms(now_ms)
        if len(segments) > 1 and 0 <= self.config.retention_ms < 2 * age_ms:
            self.raise_log_start(min(segments[1].base_offset, self.high_watermark))
        return apply_retention(self, now_ms)

    set_attribute(PartitionLog, "_apply_retention", late)


@mutation(
    "permission results stay cached when entries change", seeds_max=200, seeds_from=3, seeds_step=4, known_seed=15
)
def _remember_permissions(set_attribute: SetAttribute) -> None:
    class Forgetless(dict[Any, bool]):
        def clear(self) -> None:
            """Keep everything."""

    publish = AclAuthorizer.publish

    def publish_and_remember(self: AclAuthorizer, delta: MetadataDelta, image: MetadataImage) -> None:
        if not isinstance(self._cache, Forgetless):
            self._cache = Forgetless()
        publish(self, delta, image)

    set_attribute(AclAuthorizer, "publish", publish_and_remember)


@mutation("a Produce asks for no permission", seeds_max=200, seeds_from=3, seeds_step=4, known_seed=15)
def _produce_without_permission(set_attribute: SetAttribute) -> None:
    may = RequestContext.may_on_topic

    def may_write(self: RequestContext, operation: Operation, topic: str) -> bool:
        return operation is Operation.WRITE or may(self, operation, topic)

    set_attribute(RequestContext, "may_on_topic", may_write)


@mutation("with ottla.acks.fsync a follower confirms what it has not synced", seeds_max=80, seeds_from=5, seeds_step=8)
def _confirm_unsynced(set_attribute: SetAttribute) -> None:
    set_attribute(FollowerSyncs, "start", lambda self, named: False)


@mutation("with ottla.acks.fsync a leader acknowledges before its sync", seeds_max=80, seeds_from=5, seeds_step=8)
def _acknowledge_unsynced(set_attribute: SetAttribute) -> None:
    advance = Partition.advance_high_watermark

    def advance_unsynced(self: Partition, now_ms: int) -> bool:
        config = self.log.config
        self.log.config = replace(config, ottla_acks_fsync=False)
        try:
            return advance(self, now_ms)
        finally:
            self.log.config = config

    set_attribute(Partition, "advance_high_watermark", advance_unsynced)


@mutation("the last known leader is one that was never seen alive", seeds_max=None)
def _believe_unseen_leaders(set_attribute: SetAttribute) -> None:
    set_attribute(LastKnownLeaders, "note_elections", lambda self, records, last_offset: None)


@mutation("compaction removes the last record of a key", seeds_max=105, seeds_from=9, seeds_step=16)
def _remove_last_of_key(set_attribute: SetAttribute) -> None:
    set_attribute(OffsetMap, "marks", lambda self, base_offset, last_offset: b"\1" * (last_offset + 1 - base_offset))


@mutation("compaction does not copy the later segments of a group", seeds_max=105, seeds_from=9, seeds_step=16)
def _copy_first_of_group(set_attribute: SetAttribute) -> None:
    clean_group = Cleaning._clean_group

    def clean_first(
        self: Cleaning, group: list[SourceSegment], offsets: OffsetMap, transactions: CleanedTransactions
    ) -> Iterator[object]:
        for outcome in clean_group(self, group[:1], offsets, transactions):
            yield outcome._replace(sources=group) if isinstance(outcome, CleanedGroup) else outcome

    set_attribute(Cleaning, "_clean_group", clean_first)


@mutation("compaction does not stop at the high watermark", seeds_max=105, seeds_from=9, seeds_step=16)
def _compact_uncommitted(set_attribute: SetAttribute) -> None:
    set_attribute(
        dirty_log, "_uncleanable_offset", lambda log, segments, first_dirty_offset, now_ms: segments[-1].base_offset
    )


@mutation("compaction gives the records that are left other offsets", seeds_max=105, seeds_from=9, seeds_step=16)
def _renumber(set_attribute: SetAttribute) -> None:
    def renumbered(batch: RecordBatch, *_: Any) -> bytes:
        records = [record._replace(offset=record.offset + 1) for record in read_records(batch, size_bytes_max=1 << 20)]
        return build_batch(records, base_offset=batch.base_offset + 1, leader_epoch=batch.leader_epoch)

    set_attribute(cleaning, "filter_batch", renumbered)


if __name__ == "__main__":
    measure([mutation._replace(known_seed=None) for mutation in MUTATIONS])
