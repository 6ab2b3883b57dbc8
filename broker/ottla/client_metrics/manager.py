"""`ClientMetricsManager`: the subscriptions in the metadata and the client instances of this node.

Instances are bounded in number, the least recently used one is removed first; each ends with its connection, or when
it has been silent for three intervals. What they pushed ends with them.

Source: ClientMetricsManager of Apache Kafka 4.3. Unlike there, an instance whose subscription changed is matched by the
attributes of the request at hand, so that no attributes have to be kept.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final

from ottla.client_metrics.instance import ClientInstance
from ottla.client_metrics.otlp import Point
from ottla.client_metrics.pushed import ClientLabels, PushedSeries, describe_push
from ottla.client_metrics.subscriptions import Subscription, combine, read_subscription
from ottla.config.key import InvalidConfigError
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.log_lines import LineLimit
from ottla.metadata.configs import ConfigResource
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.ports import Clock, ConnectionId, Random
from ottla.purgatory.memory_budget import MemoryBudget
from ottla.purgatory.steps import Steps
from ottla.quoting import one_line, quoted
from ottla.types import Uuid, format_uuid

logger = logging.getLogger(__name__)

INSTANCES_MAX: Final = 16_384
"""As Kafka's cache."""
SERIES_MAX: Final = 20_000
"""Series of all clients on a node's page: some 8 MB there, and 4 MB of memory."""
_PUSHES_WAITING_MAX: Final = 64
_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the waiting pushes, each of which may have ``telemetry.max.bytes``."""
_EXPIRY_MS_MIN: Final = 60_000
_CHECK_INTERVAL_MS: Final = 1_000
_CHECKED_PER_TICK: Final = 256
"""Instances, and series that are removed."""
_LOG_INTERVAL_MS: Final = 100


class ClientMetricsManager:
    """See the module; a `Part` and a `MetadataPublisher`.

    Args of the constructor:
        receivers: ``metrics`` and ``log``; without any, this node does not take part.
        bytes_max: of one push, compressed and decompressed.

    Attributes:
        push_slot: held by the push that is being decompressed and decoded: its few KB may become 5 MB.
        series: of all instances.
        dropped_values: points that a limit dropped, or that are no step of a counter.
        throttled, unknown_subscriptions, pushes, failed_pushes: counters of requests.
    """

    def __init__(self, clock: Clock, random: Random, *, receivers: tuple[str, ...], bytes_max: int) -> None:
        self._clock = clock
        self._random = random
        self._receivers = frozenset(receivers)
        self.bytes_max = bytes_max
        self.push_slot = MemoryBudget(1)
        self._subscriptions: Mapping[str, Subscription] = {}
        self._version = 0
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._to_check: deque[Uuid] = deque()
        self._next_check_ms = 0
        self.series = 0
        self._lines = LineLimit(clock, interval_ms=_LOG_INTERVAL_MS)
        self.dropped_values = 0
        self.throttled = 0
        self.unknown_subscriptions = 0
        self.pushes = 0
        self.failed_pushes = 0

    @property
    def is_enabled(self) -> bool:
        return bool(self._receivers)

    @property
    def is_overloaded(self) -> bool:
        """Whether so many pushes wait for the slot that another one must not."""
        return self.push_slot.waiting_count >= min(_PUSHES_WAITING_MAX, max(1, _WAITING_BYTES_MAX // self.bytes_max))

    def __len__(self) -> int:
        return len(self._instances)

    def pushed(self) -> list[PushedSeries]:
        """Return what each instance has pushed, for the metrics page."""
        return [each.pushed for each in self._instances.values() if each.pushed is not None]

    # --- subscriptions

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note changed subscriptions; clients get them with their next request. A node without receivers has none."""
        if not self.is_enabled:
            return
        is_changed = False
        # Copied: a request that is being matched keeps the old mapping.
        subscriptions = dict(self._subscriptions)
        for resource in delta.configs.changes:
            if resource.type is ConfigResourceType.CLIENT_METRICS:
                is_known = subscriptions.pop(resource.name, None) is not None
                values = image.configs.of(resource)
                if values:
                    self._add(subscriptions, resource, values)
                is_changed = is_changed or is_known or bool(values)
        if is_changed:
            self._subscriptions = subscriptions
            self._version += 1

    def _add(self, into: dict[str, Subscription], resource: ConfigResource, values: Mapping[str, str]) -> None:
        try:
            into[resource.name] = read_subscription(values)
        except InvalidConfigError as error:
            logger.warning(
                "client metrics subscription %s is ignored: %s", quoted(resource.name), one_line(error.message or "")
            )

    # --- instances

    def new_instance_id(self) -> Uuid:
        return self._random.uuid()

    def instance(
        self, instance_id: Uuid, attributes: Mapping[str, str | None], connection: ConnectionId
    ) -> Steps[ClientInstance]:
        """Return the instance, with the newest subscription; a new one for a client that is not known."""
        found = self._instances.get(instance_id)
        if found is None or found.version < self._version:
            version, subscriptions = self._version, self._subscriptions
            combined = yield from combine(subscriptions, attributes)
            self.remove(instance_id)
            found = ClientInstance(instance_id, combined, version, connection, self._clock.monotonic_ms())
            self._instances[instance_id] = found
            if len(self._instances) > INSTANCES_MAX:
                self.remove(next(iter(self._instances)))
        self._instances.move_to_end(instance_id)
        found.expires_at_ms = self._clock.monotonic_ms() + max(_EXPIRY_MS_MIN, 3 * found.subscription.interval_ms)
        return found

    def remove(self, instance_id: Uuid) -> None:
        """Remove an instance, if it exists, and what it pushed."""
        instance = self._instances.pop(instance_id, None)
        if instance is not None:
            self.series -= len(instance.pushed or ())

    def remove_instance_of(self, connection: ConnectionId, instance_id: Uuid | None) -> None:
        """Remove the instance that was created over this connection, if any; another connection's stays."""
        instance = None if instance_id is None else self._instances.get(instance_id)
        if instance is not None and instance.connection == connection:
            self.remove(instance.instance_id)

    # --- pushes

    def count(self, error: ErrorCode) -> None:
        """Count the result of a request."""
        if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self.throttled += 1
        elif error is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
            self.unknown_subscriptions += 1

    def receive(self, instance: ClientInstance, labels: ClientLabels, points: list[Point]) -> Steps[None]:
        """Pass the points of an accepted push to the receivers."""
        self.pushes += 1
        if "log" in self._receivers and self._lines.take_permit():
            logger.info("%s", describe_push(instance.instance_id, labels, points))
        if "metrics" not in self._receivers:
            return
        if self._instances.get(instance.instance_id) is not instance:
            logger.debug("client instance %s ended while its push was decoded", format_uuid(instance.instance_id))
            return
        series = instance.pushed
        if series is None:
            series = instance.pushed = PushedSeries(labels)
        for number, point in enumerate(points, 1):
            taken = series.apply(point, series_left=SERIES_MAX - self.series)
            if taken < 0:
                self.dropped_values += 1
            elif self._instances.get(instance.instance_id) is instance:
                self.series += taken
            if number % 16 == 0:
                yield None

    # --- schedule

    def tick(self, now_ms: int) -> int | None:
        """Check each second, a portion at a time, which instances have been silent for too long; see `Part`.

        Not by timers: their entry of an instance that is removed early would stay until it is due, for hours, and a
        client may have its former instance removed with each request.
        """
        if not self._to_check:
            if not self._instances or now_ms < self._next_check_ms:
                return self.next_deadline_ms()
            self._next_check_ms = now_ms + _CHECK_INTERVAL_MS
            self._to_check.extend(self._instances)
        left = _CHECKED_PER_TICK
        while self._to_check and left > 0:
            instance = self._instances.get(self._to_check.popleft())
            left -= 1
            if instance is not None and instance.expires_at_ms <= now_ms:
                left -= len(instance.pushed or ())
                self.remove(instance.instance_id)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        if self._to_check:
            return self._clock.monotonic_ms()
        return self._next_check_ms if self._instances else None
