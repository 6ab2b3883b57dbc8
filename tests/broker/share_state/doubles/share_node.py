"""A share coordinator without a node around it: its log, the cluster's topics and the clock are those of the test."""

from collections.abc import Iterable

from memory_coordinator_log import MemoryCoordinatorLog
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE
from ottla.metadata.topics import TopicImage
from ottla.purgatory import Delayed
from ottla.share_state.config import ShareStateConfig
from ottla.share_state.coordinator import ShareCoordinator
from ottla.share_state.log import decode
from ottla.share_state.persister import ReadState, SharePartitionKey, StateBatch, StateResult, StateWrite
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Uuid

TOPIC_ID, OTHER_ID = Uuid(b"topic".ljust(16)), Uuid(b"other".ljust(16))
KEY = SharePartitionKey("group", TOPIC_ID, 0)


class ShareNode:
    """One node that leads the only partition of ``__share_group_state``; it is also the coordinator's `Topics`."""

    def __init__(self, config: ShareStateConfig | None = None) -> None:
        self.clock = SimulatedClock()
        self.log = MemoryCoordinatorLog()
        self.names: dict[Uuid, str] = {TOPIC_ID: "topic", OTHER_ID: "other"}
        self.config = config or ShareStateConfig()
        self.restart(0)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.names.get(topic_id)

    def partition_count(self, name: str) -> int | None:
        return 1000 if name in self.names.values() else None

    def restart(self, leader_epoch: int) -> None:
        """End the process; a new one leads in ``leader_epoch`` and loads the log."""
        self.elect(leader_epoch)
        while self.coordinator.is_loading:
            self.coordinator.tick(self.clock.monotonic_ms())

    def elect(self, leader_epoch: int) -> None:
        """Start to load the log in a new process."""
        self.coordinator = ShareCoordinator(
            config=self.config, clock=self.clock, log=self.log, topics=self, partition_count=lambda: 1
        )
        self.coordinator.on_elected(0, leader_epoch, self.log.read_again(0))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with every deadline met to the millisecond."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.clock.advance(max(deadline_ms - self.clock.monotonic_ms(), 0))
            self.coordinator.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def delete_topic(self, topic_id: Uuid) -> None:
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.topics.deleted_topics[topic_id] = TopicImage(
            topic_id=topic_id, name=self.names.pop(topic_id), partitions={}
        )
        self.coordinator.on_metadata_update(delta)

    # Requests

    def initialize(self, key: SharePartitionKey = KEY, *, state_epoch: int = 1, start_offset: int = 0) -> None:
        initialized = self.coordinator.initialize(key, state_epoch=state_epoch, start_offset=start_offset)
        assert initialized.value.error == 0, initialized.value

    def initialize_uncommitted(self) -> Delayed[StateResult]:
        return self.coordinator.initialize(KEY, state_epoch=2, start_offset=1)

    def write(
        self, *batches: tuple[int, int, int, int], key: SharePartitionKey = KEY, start_offset: int = -1, count: int = 0
    ) -> Delayed[StateResult]:
        write = StateWrite(
            state_epoch=1,
            leader_epoch=-1,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=tuple(StateBatch(*batch) for batch in batches),
        )
        return self.coordinator.write(key, write)

    def read(self, key: SharePartitionKey = KEY, *, leader_epoch: int = -1) -> ReadState:
        return self.coordinator.read(key, leader_epoch=leader_epoch).value

    def records(self) -> Iterable[object]:
        return [decode(record.key or b"", record.value) for record in self.log.records()]
