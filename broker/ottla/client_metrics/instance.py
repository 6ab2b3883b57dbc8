"""`ClientInstance`: one client that takes part, from its first request to its end; a state machine without a clock.

A client gets its subscription, then pushes once per interval. A request that comes too early gets
THROTTLING_QUOTA_EXCEEDED, except the first push after a subscription was sent, a terminating push, and a request for a
subscription after a push that failed because of it.

Source: ClientMetricsInstance and ClientMetricsManager.validate*Request of Apache Kafka 4.3.
"""

from typing import Final

from ottla.client_metrics.pushed import PushedSeries
from ottla.client_metrics.subscriptions import Combined
from ottla.errors import ErrorCode
from ottla.ports import ConnectionId
from ottla.types import Uuid
from ottla.wire.records import Compression

ACCEPTED_COMPRESSION: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""In the order of preference that is sent to clients; no compression is accepted as well."""
_COMPRESSION_CODES: Final = frozenset(Compression)
_REQUESTS_AGAIN_AFTER: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_NEVER: Final = -1


class ClientInstance:
    """See the module.

    Attributes:
        instance_id: chosen by a broker, or by the client.
        subscription: the combined one, of ``version``; ``subscription_id`` is its id for this instance.
        connection: over which the instance was created; with its end the instance is removed.
        expires_at_ms: monotonic; moved by each request.
        is_terminating: the last push was the client's last one.
        last_error: the result of the last request.
        pushed: the series of the client, None before its first push.
    """

    __slots__ = (
        "_got_at_ms",
        "_pushed_at_ms",
        "connection",
        "expires_at_ms",
        "instance_id",
        "is_terminating",
        "last_error",
        "pushed",
        "subscription",
        "subscription_id",
        "version",
    )

    def __init__(
        self, instance_id: Uuid, subscription: Combined, version: int, connection: ConnectionId, expires_at_ms: int
    ) -> None:
        self.instance_id = instance_id
        self.subscription = subscription
        self.subscription_id = subscription.id_for(instance_id)
        self.version = version
        self.connection = connection
        self.expires_at_ms = expires_at_ms
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.pushed: PushedSeries | None = None
        self._got_at_ms = self._pushed_at_ms = _NEVER

    def on_get(self, now_ms: int) -> ErrorCode:
        """Return the result of a request for the subscription; now_ms is monotonic and >= 0."""
        last_ms = max(self._got_at_ms, self._pushed_at_ms)
        if last_ms == _NEVER or now_ms - last_ms >= self.subscription.interval_ms:
            self._got_at_ms = now_ms
        elif self.last_error not in _REQUESTS_AGAIN_AFTER:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.last_error = ErrorCode.NONE
        return ErrorCode.NONE

    def on_push(
        self,
        subscription_id: int,
        *,
        compression_type: int,
        size_bytes: int,
        bytes_max: int,
        is_last: bool,
        now_ms: int,
    ) -> ErrorCode:
        """Return whether a push is accepted; with NONE its metrics are to be decoded.

        The order of the checks is Kafka's. A push that is rejected for its subscription uses up the interval.
        """
        error = self._check_push(subscription_id, compression_type, size_bytes, bytes_max, is_last, now_ms)
        self.last_error = error
        self.is_terminating = is_last
        return error

    def _check_push(
        self, subscription_id: int, compression_type: int, size_bytes: int, bytes_max: int, is_last: bool, now_ms: int
    ) -> ErrorCode:
        if self.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not self._may_push(now_ms) and not is_last:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != self.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if compression_type not in _COMPRESSION_CODES:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size_bytes > bytes_max else ErrorCode.NONE

    def _may_push(self, now_ms: int) -> bool:
        is_first = self._pushed_at_ms == _NEVER or self._got_at_ms > self._pushed_at_ms
        if not is_first and now_ms - self._pushed_at_ms < self.subscription.interval_ms:
            return False
        self._pushed_at_ms = now_ms
        return True
