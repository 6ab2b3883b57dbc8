"""Fetch (api key 1, v4-v18): read record batches; the answer waits until there are min_bytes or max_wait_ms is over.

v7 incremental sessions (KIP-227); v11 rack; v12 flexible, last fetched epoch and diverging epoch (KIP-595); v13 topic
ids (KIP-516); v15 replica state; v16 node endpoints (KIP-951); v17 replica directory; v18 high watermark (KIP-1166).
Not done: fetches of followers get NOT_LEADER_OR_FOLLOWER, as this release places one replica per partition.
Source: FetchRequest.json; KafkaApis.handleFetchRequest, DelayedFetch, ReplicaManager.readFromLog of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import Answer, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.log.partition_log import LogSlice
from ottla.replication.fetch_session import NO_SESSION, FetchContext, FetchedPartition, PartitionKey
from ottla.replication.partition import Partition
from ottla.types import TopicPartition
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_NODE_ENDPOINTS = 16
_READ_COMMITTED = 1
_CONSUMER = -1


@serves(api_key=1, versions=range(4, 19))
def fetch(context: RequestContext, request: FetchRequest) -> Answer:
    """Read now; wait for more unless there is enough, an error, or no time."""
    try:
        session = context.services.fetch_sessions.begin(
            request,
            uses_topic_ids=context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS,
            now_ms=context.received_at_ms,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    round_ = _Round(context, request, session)
    if round_.read() or request.max_wait_ms <= 0:
        return round_.respond()
    return context.services.replicas.fetch_purgatory.watch(
        round_.keys(),
        deadline_ms=context.received_at_ms + request.max_wait_ms,
        try_complete=round_.retry,
        on_deadline=round_.read_and_respond,
    )


class _Round:
    """One fetch request being answered: may read several times, responds once."""

    def __init__(self, context: RequestContext, request: FetchRequest, session: FetchContext) -> None:
        self.context = context
        self.request = request
        self.session = session
        self.response = FetchResponse()
        self._size_bytes_max = min(request.max_bytes, context.services.config.fetch_max_bytes)
        self._answers: dict[PartitionKey, PartitionData] = {}
        self._has_error = False
        self._size_bytes = 0
        replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
        self._is_follower = replica_id != _CONSUMER

    def keys(self) -> list[TopicPartition]:
        """Return what must change for another try to make sense."""
        return [
            TopicPartition(topic, partition)
            for key in self.session.partitions
            if (topic := self._topic_of(key)) is not None
            for partition in (key[2],)
        ]

    def read(self) -> bool:
        """Read every partition within the limits; return whether the client need not wait any longer."""
        self._answers = {}
        self._has_error = False
        self._size_bytes = 0
        for key, fetched in self.session.partitions.items():
            answer = PartitionData(partition_index=key[2], records=b"")
            self._answers[key] = answer
            try:
                self._read_partition(key, fetched.request, answer)
            except KafkaError as error:
                self._refuse(key, answer, error)
        return self._has_error or not self._answers or self._size_bytes >= self.request.min_bytes

    def retry(self) -> FetchResponse | None:
        """Return the response if enough came in; cheap while nothing did."""
        if self._has_news() and self.read():
            return self.respond()
        return None

    def read_and_respond(self) -> FetchResponse:
        self.read()
        return self.respond()

    def respond(self) -> FetchResponse:
        """Put the last read into the response; in an incremental session only what changed."""
        topics: dict[object, FetchableTopicResponse] = {}
        with_data = []
        for key, answer in self._answers.items():
            fetched = self.session.partitions[key]
            is_news = _note_what_is_told(fetched, answer)
            if self.session.is_incremental and not is_news:
                continue
            topic = topics.get(key[:2])
            if topic is None:
                topic = topics[key[:2]] = FetchableTopicResponse(topic=key[0], topic_id=key[1])
            topic.partitions.append(answer)
            if answer.records:
                with_data.append(key)
        self.response.session_id = self.session.session_id
        self.response.responses = list(topics.values())
        if self.session.session_id != NO_SESSION:
            # Those that were served go to the end of the line, so that a small max_bytes starves nobody.
            for key in with_data:
                self.session.partitions[key] = self.session.partitions.pop(key)
        return self.response

    def _topic_of(self, key: PartitionKey) -> str | None:
        if self.context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            return self.context.services.metadata.topic_name(key[1])
        return key[0]

    def _partition_of(self, key: PartitionKey) -> Partition:
        topic = self._topic_of(key)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._is_follower:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node has no such follower")
        return self.context.services.replicas.get(topic, key[2])

    def _has_news(self) -> bool:
        """Return whether any partition has records beyond what is asked for, or cannot be read any more."""
        replicas = self.context.services.replicas
        for key, fetched in self.session.partitions.items():
            topic = self._topic_of(key)
            partition = None if topic is None else replicas.find(topic, key[2])
            if partition is None or not partition.is_leader:
                return True
            if partition.log.high_watermark > fetched.request.fetch_offset:
                return True
        return False

    def _read_partition(self, key: PartitionKey, wanted: FetchPartition, answer: PartitionData) -> None:
        partition = self._partition_of(key)
        partition.require_leadership(wanted.current_leader_epoch)
        log = partition.log
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if wanted.last_fetched_epoch >= 0 and self._diverges(partition, wanted, answer):
            return
        room = min(wanted.partition_max_bytes, self._size_bytes_max - self._size_bytes)
        is_first = self._size_bytes == 0
        if room <= 0 and not is_first:
            return
        read_committed = self.request.isolation_level == _READ_COMMITTED
        found = partition.read_for_consumer(
            wanted.fetch_offset, size_bytes_max=max(room, 0), at_least_one=is_first, read_committed=read_committed
        )
        self._add(partition, answer, found)

    def _add(self, partition: Partition, answer: PartitionData, found: LogSlice) -> None:
        if found.aborted_transactions is not None:
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in found.aborted_transactions
            ]
        if found.records is not None:
            answer.records = found.records
            self._size_bytes += found.size_bytes
            traffic = self.context.services.replicas.traffic_of(partition.topic_partition.topic)
            traffic.fetch_requests += 1
            traffic.bytes_out += found.size_bytes

    def _diverges(self, partition: Partition, wanted: FetchPartition, answer: PartitionData) -> bool:
        """Report where the reader's log parts from ours, if it does: it must truncate before it reads on."""
        end = partition.end_of_epoch(wanted.last_fetched_epoch)
        if end.offset < 0 or end.epoch < wanted.last_fetched_epoch or end.offset < wanted.fetch_offset:
            answer.diverging_epoch.epoch = end.epoch
            answer.diverging_epoch.end_offset = end.offset
            self._has_error = True
            return True
        return False

    def _refuse(self, key: PartitionKey, answer: PartitionData, error: KafkaError) -> None:
        self._has_error = True
        answer.error_code = error.code
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        topic = self._topic_of(key)
        if topic is None or self.context.services.metadata.topic(topic) is None:
            return
        self.context.services.replicas.traffic_of(topic).failed_fetch_requests += 1
        is_moved = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if is_moved and self.context.api_version >= _FIRST_VERSION_WITH_NODE_ENDPOINTS:
            add_moved_leader(self.context, answer.current_leader, self.response.node_endpoints, topic, key[2])


def _note_what_is_told(fetched: FetchedPartition, answer: PartitionData) -> bool:
    """Remember what the response says of a partition; return whether an incremental response must list it."""
    is_news = (
        bool(answer.records)
        or answer.error_code != 0
        or fetched.had_error
        or answer.high_watermark != fetched.last_high_watermark
        or answer.log_start_offset != fetched.last_log_start_offset
        or answer.diverging_epoch.epoch >= 0
    )
    fetched.had_error = answer.error_code != 0
    fetched.last_high_watermark = answer.high_watermark
    fetched.last_log_start_offset = answer.log_start_offset
    return is_news
