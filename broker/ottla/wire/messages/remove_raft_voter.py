"""RemoveRaftVoter (api key 81, v0): remove a voter from the metadata quorum (KIP-853).

Source: RemoveRaftVoterRequest.json, RemoveRaftVoterResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, int16, int32, string, uuid


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+", served_on="controller broker"):
    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: Uuid = uuid("0+")


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
