"""A simulated read-process-write client: copies the committed records of a topic, with their offsets, in transactions.

It has fixed partitions and no group metadata, or it is a member of the group (KIP-447). It aborts some transactions on
purpose, crashes, and returns with the same transactional id or another one. A member may also pause behind a fetch for
longer than its session, and then copies what belongs to another member by now.

Source: Kafka's Producer.sendOffsetsToTransaction; ConsumerCoordinator for the offsets.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.committed_reader import READ_COMMITTED, committed_records
from ottla.simulator.clients.consumer import fetch_request
from ottla.simulator.clients.copier_member import Assignment, CopierMember
from ottla.simulator.clients.restartable_client import GROUP_KEY
from ottla.simulator.clients.transactional_client import OF_COORDINATOR, TransactionalClient
from ottla.simulator.invariants.copy_invariants import COPIES_OF_EACH, Copy, CopyInvariants, Required
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.types import ZERO_UUID, Endpoint, Offset
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.records import Record

GROUP: Final = "copiers"
RECORDS_MAX: Final = 5
ABORTS_ONE_IN: Final = 6
CRASHES_ONE_IN: Final = 10
PAUSES_ONE_IN: Final = 10
PAUSE_MS_MAX: Final = 12_000
POLL_MS_MAX: Final = 50
_RETRIABLE: Final = OF_COORDINATOR | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
}
_NOT_A_MEMBER: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class Copier(TransactionalClient):
    """See the module.

    Args of the constructor:
        topic: of the input; that of the output is the invariants'.
        fixed: its partitions; None for a member of the group.
    """

    def __init__(
        self,
        host: ClientHost,
        invariants: CopyInvariants,
        groups: GroupInvariants,
        name: str,
        topic: str,
        *,
        fixed: tuple[int, ...] | None,
    ) -> None:
        super().__init__(host, name)
        self.topic = topic
        self._invariants = invariants
        self._group_coordinator: Endpoint | None = None
        self._assignment = None if fixed is None else Assignment(fixed)
        self._member = None
        if fixed is None:
            self._member = CopierMember(host, groups, f"{name}-member", GROUP, topic, self._on_assigned)
            self._member.start()
        self._positions: dict[int, Offset] = {}
        self._is_position_valid = False
        self._is_copying = False
        self._polled_count = 0

    def start(self) -> None:
        """Start an instance: fence the one before, and continue from the committed offsets."""
        self._end_instance()
        self._is_position_valid = self._is_copying = False
        counts = [self._host.partition_count(topic) for topic in (self.topic, self._invariants.topic)]
        if 0 in counts:
            self._host.refresh()
            self._run_later(self.start)
            return
        self._find_own_coordinator(self._initialize)

    def copied_partitions(self) -> set[int]:
        """Return the partitions whose committed records it, or a copier before it, has copied."""
        if self._is_copying or not self._is_position_valid:
            return set()
        ledgers = self._invariants.inputs.state_observer.ledger
        copied = set()
        for partition, position in self._positions.items():
            target = self._host.target(self.topic, partition)
            if target is not None and position >= ledgers.partition(target.key).end:
                copied.add(partition)
        return copied

    def _on_assigned(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._is_position_valid = False

    # --- its position

    def _on_initialized(self) -> None:
        self._is_copying = False
        # Often before the markers of the last transaction are written.
        self._run_later(self._poll, self._host.random.randrange(POLL_MS_MAX))

    def _poll(self) -> None:
        """Fetch the next input, behind the committed offsets when these are not known."""
        assignment = self._assignment
        if self._group_coordinator is None:
            self._find_coordinator(GROUP_KEY, GROUP, self._set_group_coordinator)
        elif assignment is None or not assignment.partitions:
            self._run_later(self._poll)
        elif not self._is_position_valid:
            self._fetch_offsets(assignment)
        else:
            partition = assignment.partitions[self._polled_count % len(assignment.partitions)]
            self._polled_count += 1
            self._fetch_input(assignment, partition)

    def _set_group_coordinator(self, endpoint: Endpoint) -> None:
        self._group_coordinator = endpoint
        self._poll()

    def _fetch_offsets(self, assignment: Assignment) -> None:
        target = self._host.target(self.topic, 0)
        topic_id = ZERO_UUID if target is None else target.key.topic_id
        topic = OffsetFetchRequestTopics(
            name=self.topic, topic_id=topic_id, partition_indexes=list(assignment.partitions)
        )
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        required = self._invariants.required_offsets()
        assert self._group_coordinator is not None, "it was found"
        self._ask(
            self._group_coordinator,
            OffsetFetchRequest(groups=[group], require_stable=True),
            f"{self.name}-group",
            lambda response: self._on_offsets(assignment, required, response),
        )

    def _on_offsets(self, assignment: Assignment, required: Required, response: PeerResult) -> None:
        codes: set[int] = {ErrorCode.NETWORK_EXCEPTION}
        if isinstance(response, OffsetFetchResponse):
            group = response.groups[0]
            partitions = group.topics[0].partitions if group.topics else []
            codes = {group.error_code, *(each.error_code for each in partitions)} - {ErrorCode.NONE}
            if not codes:
                for each in partitions:
                    self._invariants.on_fetched(each.partition_index, each.committed_offset, required)
                self._positions = {each.partition_index: max(each.committed_offset, 0) for each in partitions}
                self._is_position_valid = self._assignment is assignment
        if codes - {ErrorCode.UNSTABLE_OFFSET_COMMIT}:
            self._group_coordinator = None
        self._run_later(self._poll)

    # --- one transaction

    def _fetch_input(self, assignment: Assignment, partition: int) -> None:
        target = self._host.target(self.topic, partition)
        if target is None:
            self._run_later(self._poll)
            return
        position = self._positions[partition]

        def on_response(response: PeerResult) -> None:
            if isinstance(response, FetchResponse) and response.error_code == ErrorCode.NONE and response.responses:
                data = response.responses[0].partitions[0]
                if data.error_code == ErrorCode.NONE and self._is_position_valid:
                    records, self._positions[partition] = committed_records(data, position)
                    if records:
                        self._begin(assignment, partition, records[:RECORDS_MAX])
                        return
            self._host.refresh()
            self._run_later(self._poll)

        request = fetch_request(target.key, position, READ_COMMITTED)
        self._ask(target.endpoint, request, f"{self.name}-fetch", on_response)

    def _begin(self, assignment: Assignment, partition: int, records: list[Record]) -> None:
        self._is_copying = True
        self._is_position_valid = False
        random = self._host.random
        if random.randrange(CRASHES_ONE_IN) == 0:
            self._run_later(self._crash, random.randrange(500))
        pause_ms = 0
        if self._member is not None and random.randrange(PAUSES_ONE_IN) == 0:
            pause_ms = random.randrange(PAUSE_MS_MAX)
            self._member.pause(pause_ms)
        self._run_later(lambda: self._copy(assignment, partition, records), pause_ms)

    def _copy(self, assignment: Assignment, partition: int, records: list[Record]) -> None:
        count = self._host.partition_count(self._invariants.topic)
        batches = {
            (partition + number) % count: [
                Copy(number, partition, record.offset, bytes(record.value or b"")).encode() for record in records
            ]
            for number in range(COPIES_OF_EACH)
        }
        waiting = set(batches)
        end_offset = records[-1].offset + 1

        def on_appended(output: int) -> None:
            waiting.discard(output)
            if not waiting:
                self._enlist_offsets(lambda: self._commit_offset(assignment, partition, end_offset))

        def produce() -> None:
            for output, values in batches.items():
                self._produce(self._invariants.topic, output, values, partial(on_appended, output))

        self._enlist(self._invariants.topic, batches, produce)

    def _enlist_offsets(self, then: Callable[[], object]) -> None:
        if self._is_version_2:
            then()
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            group_id=GROUP,
        )

        def on_response(response: PeerResult) -> None:
            code: int = ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, AddOffsetsToTxnResponse):
                code = response.error_code
            self._continue_with({code}, then, lambda: self._enlist_offsets(then))

        self._ask_coordinator(request, on_response)

    def _commit_offset(self, assignment: Assignment, partition: int, offset: Offset) -> None:
        if self._group_coordinator is None:

            def set_coordinator(endpoint: Endpoint) -> None:
                self._group_coordinator = endpoint
                self._commit_offset(assignment, partition, offset)

            self._find_coordinator(GROUP_KEY, GROUP, set_coordinator)
            return
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            generation_id=assignment.generation,
            member_id=assignment.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[committed])],
        )

        def on_response(response: PeerResult) -> None:
            code: int = ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, TxnOffsetCommitResponse):
                code = response.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                is_commit = self._host.random.randrange(ABORTS_ONE_IN) > 0
                self._decide(assignment, partition, offset, is_commit=is_commit)
            elif code in _NOT_A_MEMBER:
                if self._assignment is assignment:
                    self._assignment = None
                self._decide(assignment, partition, offset, is_commit=False)
            elif code in _RETRIABLE:
                self._group_coordinator = None
                self._run_later(lambda: self._commit_offset(assignment, partition, offset))
            else:
                self._run_later(self.start)

        self._ask(self._group_coordinator, request, f"{self.name}-group", on_response)

    def _decide(self, assignment: Assignment, partition: int, offset: Offset, *, is_commit: bool) -> None:
        if is_commit:
            self._invariants.on_commit_requested(partition, offset)

        def on_ended() -> None:
            if not is_commit:
                return
            self._invariants.on_committed(partition, offset)
            if self._assignment is assignment and self._host.random.randrange(2):
                # As a consumer that has polled once does; the others fetch what they have committed.
                self._positions[partition] = offset
                self._is_position_valid = True

        self._end(on_ended, is_commit=is_commit)

    # --- crashes

    def _crash(self) -> None:
        """Lose all state; return with the same transactional id or another one, as another member."""
        if self._host.random.randrange(2):
            self.transactional_id = f"{self.name}-{self._instance}"
            self._set_producer(-1, -1)
        if self._member is not None:
            self._assignment = None
            self._member.restart()
        self.start()
