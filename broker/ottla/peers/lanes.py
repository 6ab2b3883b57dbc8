"""What `PeerClient` keeps: lanes with the requests that wait on them, and probes."""

from collections import deque
from enum import Enum

from ottla.peers.channel import PeerAnswer, PeerFailure
from ottla.peers.frames import FrameReader
from ottla.peers.login import LaneLogin
from ottla.peers.spoken import Spoken
from ottla.ports import ConnectionId
from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.codec import Message


class State(Enum):
    """Of a lane."""

    DOWN = "no connection"
    CONNECTING = "the connection is not up yet"
    AGREEING = "ApiVersions was asked"
    LOGGING_IN = "the login is under way"
    UP = "requests may be sent"


class Pending:
    """One request and who waits for its answer."""

    __slots__ = ("answer", "correlation_id", "deadline_ms", "request", "spoken")

    def __init__(self, request: Message, deadline_ms: int) -> None:
        self.request = request
        self.deadline_ms = deadline_ms
        self.spoken: Spoken
        self.correlation_id = -1
        self.answer: Delayed[PeerAnswer] = Delayed()


class Lane:
    """One connection, or the wish for one."""

    __slots__ = (
        "attempt_started_ms",
        "connection",
        "earliest_deadline_ms",
        "endpoint",
        "failed_attempts",
        "in_flight",
        "is_up",
        "last_active_ms",
        "listener",
        "login",
        "may_send",
        "name",
        "next_attempt_ms",
        "reader",
        "spoken",
        "state",
        "unsent",
        "versions",
    )

    def __init__(self, endpoint: Endpoint, listener: str, name: str) -> None:
        self.endpoint = endpoint
        self.listener = listener
        self.name = name
        self.state = State.DOWN
        self.is_up = False
        """Whether the state is UP: what everything that is sent asks."""
        self.connection: ConnectionId = 0
        self.reader: FrameReader | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        self.spoken: dict[int, Spoken] = {}
        """By API key, what was asked over this connection."""
        self.unsent: deque[Pending] = deque()
        self.in_flight: deque[Pending] = deque()
        self.may_send = True
        self.failed_attempts = 0
        self.next_attempt_ms = 0
        self.login: LaneLogin | None = None
        self.attempt_started_ms = 0
        self.last_active_ms = 0
        self.earliest_deadline_ms: int | None = None
        """No request that waits has an earlier one."""

    @property
    def renew_login_at_ms(self) -> int | None:
        """When the login is to be renewed; None while it is not up, or holds for ever."""
        return self.login.renew_at_ms if self.login is not None and self.is_up else None

    def waiting(self) -> list[Pending]:
        return [*self.in_flight, *self.unsent]


class Probe:
    """A connection that is made only to see whether it can be made and lasts.

    That it can be made proves little: a process that is ending may have closed the connections that it had and not its
    listener yet, and the system goes on to accept in its name. So the connection must stand until the deadline, and
    when it does not a second attempt has the last word.
    """

    __slots__ = ("answer", "connection", "deadline_ms", "endpoint", "is_connected", "is_second", "listener")

    def __init__(self, endpoint: Endpoint, listener: str, deadline_ms: int) -> None:
        self.endpoint = endpoint
        self.listener = listener
        self.deadline_ms = deadline_ms
        self.connection: ConnectionId
        self.is_connected = False
        self.is_second = False
        self.answer: Delayed[PeerFailure | None] = Delayed()
