"""`TopicCreationErrors`: why internal topics of streams groups could not be created, until it is tried again.

Members learn the reason from their heartbeats, none of which waits for a creation. While an error is kept, the topic is
not requested again: a controller that rejects it is not called by every heartbeat of every member.
Source: ExpiringErrorCache of Apache Kafka 4.3.
"""

from typing import Final, NamedTuple

from ottla.quoting import cut_message

ERRORS_MAX: Final = 1_000


class _Error(NamedTuple):
    message: str
    expires_at_ms: int


class TopicCreationErrors:
    """The last error of each topic; of more than `ERRORS_MAX` topics the one added first is removed.

    Times are monotonic.
    """

    def __init__(self) -> None:
        self._errors: dict[str, _Error] = {}

    def add(self, topic: str, message: str, *, expires_at_ms: int) -> None:
        self._errors.pop(topic, None)
        self._errors[topic] = _Error(cut_message(message), expires_at_ms)
        if len(self._errors) > ERRORS_MAX:
            del self._errors[next(iter(self._errors))]

    def message(self, topic: str, *, now_ms: int) -> str | None:
        """Return the message of the topic's error; None if there is none any more."""
        error = self._errors.get(topic)
        if error is None:
            return None
        if error.expires_at_ms <= now_ms:
            del self._errors[topic]
            return None
        return error.message
