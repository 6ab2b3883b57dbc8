"""The file ``quorum-state``: what a replica must not forget between elections.

JSON, replaced as a whole (temporary file, sync, rename, sync of the directory) before the state takes effect:

=================== ==============================================================================
field               content
=================== ==============================================================================
leaderId            the leader of ``leaderEpoch``, -1 while there is none
leaderEpoch         the newest epoch that this replica knows
votedId             whom it voted for in that epoch, -1 for nobody
votedDirectoryId    that candidate's directory id (data_version 1)
appliedOffset       0; unused (data_version 0)
currentVoters       the static voters, ``[{"voterId":1}]`` (data_version 0)
clusterId           empty; unused (data_version 0)
data_version        1 where the voters are in the log (kraft.version 1), else 0
=================== ==============================================================================

Source: FileQuorumStateStore and QuorumStateData of Apache Kafka.
"""

import json
from typing import Final, NamedTuple

from ottla.errors import StorageError
from ottla.log.checkpoint import read_text, write_text
from ottla.ports import Disk
from ottla.raft.records import ReplicaKey
from ottla.types import ZERO_UUID, LeaderEpoch, NodeId, format_uuid, parse_uuid

QUORUM_STATE_FILE: Final = "quorum-state"
_NOBODY: Final = -1


class ElectionState(NamedTuple):
    """What the file says. At most one of ``leader_id`` and ``voted_key`` is needed to know how an epoch stands."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None


class QuorumStateFile:
    """Reads and writes the file in ``directory``, the metadata log's."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{QUORUM_STATE_FILE}"

    def read(self) -> ElectionState | None:
        """Return what was written last; None before the first time.

        Raises:
            StorageError: the disk refused, or the file is not what `write` makes.
        """
        text = read_text(self._disk, self._path)
        if text is None:
            return None
        try:
            data = json.loads(text)
            leader_id, voted_id = int(data["leaderId"]), int(data["votedId"])
            voted_directory = data.get("votedDirectoryId")
            voted_key = None
            if voted_id != _NOBODY:
                voted_key = ReplicaKey(voted_id, parse_uuid(voted_directory) if voted_directory else ZERO_UUID)
            return ElectionState(int(data["leaderEpoch"]), None if leader_id == _NOBODY else leader_id, voted_key)
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{self._path} is damaged ({error}): restore it from a copy, or let this replica "
                "join the quorum anew with an empty metadata directory"
            ) from error

    def write(self, state: ElectionState, *, kraft_version: int, static_voters: list[NodeId]) -> None:
        """Replace the file; when this returns, ``state`` survives a power cut.

        Raises:
            StorageError: the disk refused.
        """
        leader_id = _NOBODY if state.leader_id is None else state.leader_id
        voted_id = _NOBODY if state.voted_key is None else state.voted_key.node_id
        if kraft_version > 0:
            voted_directory_id = ZERO_UUID if state.voted_key is None else state.voted_key.directory_id
            data: dict[str, object] = {
                "leaderId": leader_id,
                "leaderEpoch": state.epoch,
                "votedId": voted_id,
                "votedDirectoryId": format_uuid(voted_directory_id),
                "data_version": 1,
            }
        else:
            data = {
                "clusterId": "",
                "leaderId": leader_id,
                "leaderEpoch": state.epoch,
                "votedId": voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in static_voters],
                "data_version": 0,
            }
        write_text(self._disk, self._path, json.dumps(data, separators=(",", ":")))
