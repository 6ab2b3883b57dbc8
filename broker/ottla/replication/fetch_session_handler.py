"""A follower's side of an incremental fetch session: the partitions that the leader has, and their changes.

Source: FetchSessionHandler of Apache Kafka 4.3; KIP-227.
"""

from collections.abc import Iterable

from ottla.errors import ErrorCode
from ottla.replication.sessions.fetch_session import NO_SESSION
from ottla.types import Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.session_epochs import INITIAL_EPOCH, next_epoch

TopicKey = tuple[str, Uuid]


class FetchSessionHandler:
    """See the module. ``is_full``: the next request starts a session.

    ``is_granted`` is False if the leader had no session for the last full fetch: each fetch must name every partition.
    """

    __slots__ = ("_epoch", "_session_id", "is_granted")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self.is_granted = True

    @property
    def is_full(self) -> bool:
        return self._epoch == INITIAL_EPOCH

    def fill(
        self,
        request: FetchRequest,
        wanted: Iterable[tuple[TopicKey, FetchPartition]],
        removed: Iterable[tuple[TopicKey, int]],
    ) -> None:
        """Set the session's fields and the partitions of ``request``."""
        request.session_id = self._session_id
        request.session_epoch = self._epoch
        topics: dict[TopicKey, FetchTopic] = {}
        for key, partition in wanted:
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchTopic(topic=key[0], topic_id=key[1])
            topic.partitions.append(partition)
        request.topics = list(topics.values())
        if self.is_full:
            return
        by_topic: dict[TopicKey, ForgottenTopic] = {}
        for key, index in removed:
            topic_entry = by_topic.get(key)
            if topic_entry is None:
                topic_entry = by_topic[key] = ForgottenTopic(topic=key[0], topic_id=key[1])
            topic_entry.partitions.append(index)
        request.forgotten_topics_data.extend(by_topic.values())

    def on_response(self, session_id: int) -> None:
        """Continue in the session that the leader names; none means full fetches."""
        self.is_granted = session_id != NO_SESSION
        if session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif self.is_full:
            self._session_id, self._epoch = session_id, 1
        else:
            self._epoch = next_epoch(self._epoch)

    def on_error(self, code: ErrorCode | None = None) -> None:
        """Start a new session with the next request; one that the leader may still have is closed by it."""
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
