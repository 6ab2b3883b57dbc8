"""Messages that are stored or wrapped rather than sent: the principal inside Envelope, the quorum state file.

Source: DefaultPrincipalData.json, QuorumStateData.json of Apache Kafka 4.3.
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct, array, boolean, int32, int64, string, uuid


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string("0+")
    name: str = string("0+")
    token_authenticated: bool = boolean("0+")


class Voter(Struct):
    voter_id: int = int32("0")


class QuorumStateData(Message, versions="0-1", flexible="0+"):
    cluster_id: str = string("0")
    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)
    voted_id: int = int32("0+", default=-1)
    voted_directory_id: Uuid = uuid("1+")
    applied_offset: int = int64("0")
    current_voters: list[Voter] | None = array(Voter, "0", nullable="0")
