"""`ShareSessionCache`: the partitions that each member of a share group fetches, and the epoch of its next request.

Epoch 0 opens a session and replaces an older one of the member, -1 closes it. A session ends with its connection.

Source: ShareSessionCache, SharePartitionManager.newContext, acknowledgeSessionUpdate of Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.ports import ConnectionId
from ottla.types import TopicIdPartition
from ottla.wire.session_epochs import next_epoch

_PARTITIONS_MAX: Final = 20_000
"""Of one session."""
_ALL_PARTITIONS_MAX: Final = 200_000
"""Of all sessions: they take 250 bytes each."""


class ShareSessionKey(NamedTuple):
    """Group and member of a share session."""

    group_id: str
    member_id: str


class ShareSession:
    """The session of one member; ``epoch`` is that of its next request."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: ShareSessionKey, connection: ConnectionId) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, None] = {}


class ShareSessionCache:
    """See the module; ``sessions_max`` returns group.share.max.share.sessions."""

    def __init__(self, sessions_max: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[ShareSessionKey, ShareSession] = {}
        self._by_connection: dict[ConnectionId, dict[ShareSessionKey, None]] = {}
        self._counts: dict[str, int] = {}
        """Sessions of each group."""
        self.partition_count = 0
        """Partitions of all sessions."""

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return group_id in self._counts

    def open(self, key: ShareSessionKey, connection: ConnectionId) -> ShareSession:
        """Open a session; the caller has closed an older one of the member.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        if len(self._sessions) >= self._sessions_max():
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection)
        self._by_connection.setdefault(connection, {})[key] = None
        self._counts[key.group_id] = self._counts.get(key.group_id, 0) + 1
        return session

    def find(self, key: ShareSessionKey) -> ShareSession | None:
        """Return the session, if the member has one."""
        return self._sessions.get(key)

    def require(self, key: ShareSessionKey) -> ShareSession:
        """Return the session.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND.
        """
        session = self.find(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def advance(self, key: ShareSessionKey, epoch: int) -> ShareSession:
        """Return the session of a request with this epoch, and expect the next one.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self.require(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def update(
        self,
        session: ShareSession,
        added: Collection[TopicIdPartition],
        removed: Iterable[TopicIdPartition] = (),
    ) -> None:
        """Change the partitions of a session.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, the session was closed meanwhile; SHARE_SESSION_LIMIT_REACHED, it or
                all sessions have too many partitions.
        """
        if self._sessions.get(session.key) is not session:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        partitions = session.partitions
        before = len(partitions)
        if before + len(added) > _PARTITIONS_MAX or self.partition_count + len(added) > _ALL_PARTITIONS_MAX:
            added = [each for each in dict.fromkeys(added) if each not in partitions]
            if before + len(added) > _PARTITIONS_MAX or self.partition_count + len(added) > _ALL_PARTITIONS_MAX:
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        partitions.update(dict.fromkeys(added))
        for each in removed:
            partitions.pop(each, None)
        self.partition_count += len(partitions) - before

    def close(self, key: ShareSessionKey) -> ShareSession | None:
        """Remove and return the session."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            keys = self._by_connection[session.connection]
            del keys[key]
            if not keys:
                del self._by_connection[session.connection]
            self._counts[key.group_id] -= 1
            if not self._counts[key.group_id]:
                del self._counts[key.group_id]
        return session

    def close_connection(self, connection: ConnectionId) -> list[ShareSession]:
        """Remove and return the sessions of a connection that has ended."""
        closed = [self.close(key) for key in list(self._by_connection.get(connection, ()))]
        return [session for session in closed if session is not None]
