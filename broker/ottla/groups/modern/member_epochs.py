"""Values of a heartbeat's member epoch that are no epochs, the same in the three protocols.

Source: ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest, StreamsGroupHeartbeatRequest of Apache Kafka 4.3.
"""

from typing import Final

JOIN_EPOCH: Final = 0
"""A member sends it to join, or to join again after it was fenced."""
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member sends it when it leaves and intends to return; its partitions are kept for it. Share groups have no
static members; the protocol of streams groups has them, Kafka 4.3 does not support them yet."""
