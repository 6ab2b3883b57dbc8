"""The file ``quorum-state``: the state that a replica must keep between elections.

JSON, replaced as a whole (temporary file, sync, rename, sync of the directory) before the state takes effect:

=================== ==============================================================================
field               content
=================== ==============================================================================
leaderId            the leader of ``leaderEpoch``, -1 while there is none
leaderEpoch         the newest epoch that this replica knows
votedId             the candidate it voted for in that epoch, -1 for none
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
_NO_NODE: Final = -1


class ElectionState(NamedTuple):
    """Contents of the file. At most one of ``leader_id`` and ``voted_key`` is needed to restore an epoch."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None


class QuorumStateFile:
    """Reads and writes the file in ``directory``, the metadata log's."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{QUORUM_STATE_FILE}"

    def read(self) -> ElectionState | None:
        """Return the state that was written last; None before the first write.

        Raises:
            StorageError: the disk failed, or the file is not in the format of `write`.
        """
        text = read_text(self._disk, self._path)
        if text is None:
            return None
        try:
            data = json.loads(text)
            leader_id, voted_id = int(data["leaderId"]), int(data["votedId"])
            voted_directory = data.get("votedDirectoryId")
            voted_key = None
            if voted_id != _NO_NODE:
                voted_key = ReplicaKey(voted_id, parse_uuid(voted_directory) if voted_directory else ZERO_UUID)
            return ElectionState(int(data["leaderEpoch"]), None if leader_id == _NO_NODE else leader_id, voted_key)
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{self._path} is corrupt ({error}): restore it from a copy, or let this replica "
                "join the quorum again with an empty metadata directory"
            ) from error

    def write(self, state: ElectionState, *, kraft_version: int, static_voters: list[NodeId]) -> None:
        """Replace the file; when this returns, ``state`` survives a power cut.

        Raises:
            StorageError: the disk failed.
        """
        leader_id = _NO_NODE if state.leader_id is None else state.leader_id
        voted_id = _NO_NODE if state.voted_key is None else state.voted_key.node_id
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
