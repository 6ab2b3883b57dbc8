"""BrokerHeartbeat (api key 63, v0-v2): a broker reports its liveness, and requests fencing or shutdown.

Source: BrokerHeartbeatRequest.json, BrokerHeartbeatResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, array, boolean, int16, int32, int64


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+", served_on="controller"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+")
    want_fence: bool = boolean("0+")
    want_shut_down: bool = boolean("0+")
    offline_log_dirs: list[Uuid] = array("uuid", "1+", tag=0, tagged="1+")
    cordoned_log_dirs: list[Uuid] | None = array("uuid", "2+", nullable="2+", default=None, tag=1, tagged="2+")


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+")
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+")
