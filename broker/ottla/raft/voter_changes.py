"""`VoterChanges`: the leader adds, removes and updates voters, one change at a time (KIP-853).

A voter set takes effect when it is in the leader's log; successive sets have overlapping majorities, as they differ in
one voter, and the next change waits until this one is committed. A new voter must have caught up with the log before,
so that it does not delay the high watermark. A leader that removed itself leads until that is committed, then resigns.

Source: AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler of Apache Kafka.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.raft.leader import LeaderState
from ottla.raft.leadership import Leadership
from ottla.raft.records import ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.voter_set import KRAFT_VERSION_FEATURE, Voter, VoterSet
from ottla.types import ZERO_UUID, Endpoint, Offset
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.control_records import KRaftVersionRecord
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse

CAUGHT_UP_WITHIN_MS: Final = 60 * 60 * 1000
"""A replica without a fetch for this time does not count as caught up; Kafka's figure."""

Outcome: TypeAlias = Callable[[KafkaError | None], object]
"""Called with the result of a change: None when it succeeded."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Change:
    """The change under way: ``offset`` is that of its record, None while a new voter's versions are requested."""

    what: str
    outcome: Outcome
    deadline_ms: int
    offset: Offset | None = None


class VoterChanges:
    """See the module."""

    def __init__(self, replica: Replica, leadership: Leadership) -> None:
        self._replica = replica
        self._leadership = leadership
        self._change: _Change | None = None
        self._updated: VoterSet | None = None
        """With kraft.version 0: the static voters with the details that they sent in this leader's epoch."""

    def on_transition(self) -> None:
        """Fail the change under way: the client must retry at the next leader."""
        self._updated = None
        if self._change is not None:
            self._end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader of the metadata quorum has changed"))

    def poll(self, now_ms: int) -> None:
        """Complete the change that is committed or times out; resign after this replica's own removal."""
        leader = self._leader
        high_watermark = leader.high_watermark or 0
        change = self._change
        if change is not None and change.offset is not None and high_watermark > change.offset:
            self._end(None)
        elif change is not None and now_ms >= change.deadline_ms:
            self._end(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the request to {change.what} timed out"))
        if not leader.voters.is_voter(self._replica.local) and high_watermark > self._replica.voters.voters_offset:
            self._replica.resign("it was removed from the voters")

    def deadline_ms(self) -> int | None:
        return None if self._change is None else self._change.deadline_ms

    # --- adding

    def handle_add(self, request: AddRaftVoterRequest) -> Delayed[AddRaftVoterResponse]:
        """Add a voter; complete once it takes effect, or only once it is committed, as the request wants."""
        pending: Delayed[AddRaftVoterResponse] = Delayed()

        def outcome(error: KafkaError | None) -> None:
            pending.complete(AddRaftVoterResponse(error_code=_code(error), error_message=_message(error)))

        try:
            self._add(request, outcome)
        except StorageError:
            raise
        except KafkaError as error:
            outcome(error)
        return pending

    def _add(self, request: AddRaftVoterRequest, outcome: Outcome) -> None:
        self._require_leadership(request.cluster_id)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.node_id < 0 or key.directory_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
        listeners = {each.name: Endpoint(each.host, each.port) for each in request.listeners}
        endpoint = listeners.get(self._replica.listener_name)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Add voter request didn't include the endpoint ({_shown(listeners)}) for the default listener "
                f"{self._replica.listener_name}",
            )
        voters = self._changeable_voters("adding")
        if key.node_id in voters.voters:
            raise KafkaError(
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {key} is already part of the set of voters {voters}.",
            )
        change = self._start_change(f"add {key}", outcome)
        versions_request = ApiVersionsRequest(client_software_name="ottla-quorum", client_software_version="1")

        def on_response(response: PeerResult) -> None:
            if self._change is change:
                self._on_versions(change, Voter(key.node_id, key.directory_id, listeners), response)
                if not request.ack_when_committed and self._change is change:
                    outcome(None)

        self._replica.send(endpoint, versions_request, on_response)

    def _on_versions(self, change: _Change, voter: Voter, response: PeerResult) -> None:
        """Append the voter when its response shows that it supports the finalized kraft.version."""
        if isinstance(response, PeerFailure) or not isinstance(response, ApiVersionsResponse) or response.error_code:
            why = response.value if isinstance(response, PeerFailure) else "it responded with an error"
            reason = f"Aborted add voter operation for {voter.key} since its versions are unknown: {why}"
            self._end(KafkaError(ErrorCode.REQUEST_TIMED_OUT, reason))
            return
        supported = next(
            ((each.min_version, each.max_version) for each in response.supported_features if _is_kraft(each.name)),
            (0, 0),
        )
        level = self._replica.voters.kraft_version
        if not supported[0] <= level <= supported[1]:
            reason = (
                f"Aborted add voter operation for {voter.key} since the {KRAFT_VERSION_FEATURE} range {supported} "
                f"doesn't support the finalized version {level}"
            )
            self._end(KafkaError(ErrorCode.INVALID_REQUEST, reason))
        elif not self._is_caught_up(voter.key):
            reason = f"Aborted add voter operation for {voter.key} since it is lagging behind"
            self._end(KafkaError(ErrorCode.REQUEST_TIMED_OUT, reason))
        else:
            voters = self._replica.voters.voters.with_voter(voter._replace(kraft_versions=supported))
            change.offset = self._append(voters)
            change.deadline_ms = self._deadline_ms()

    def _is_caught_up(self, key: ReplicaKey) -> bool:
        progress = self._leader.progress.get(key)
        if progress is None or progress.last_caught_up_ms is None or progress.last_fetch_ms is None:
            return False
        return self._replica.now_ms - progress.last_fetch_ms < CAUGHT_UP_WITHIN_MS

    # --- removing

    def handle_remove(self, request: RemoveRaftVoterRequest) -> Delayed[RemoveRaftVoterResponse]:
        """Remove a voter, which may be this leader itself; complete once that is committed."""
        pending: Delayed[RemoveRaftVoterResponse] = Delayed()

        def outcome(error: KafkaError | None) -> None:
            pending.complete(RemoveRaftVoterResponse(error_code=_code(error), error_message=_message(error)))

        try:
            self._remove(request, outcome)
        except StorageError:
            raise
        except KafkaError as error:
            outcome(error)
        return pending

    def _remove(self, request: RemoveRaftVoterRequest, outcome: Outcome) -> None:
        self._require_leadership(request.cluster_id)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.node_id < 0 or key.directory_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
        voters = self._changeable_voters("removing")
        voter = voters.voters.get(key.node_id)
        if voter is None or voter.key != key or len(voters.voters) == 1:
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {key} from the set of voters {voters}")
        change = self._start_change(f"remove {key}", outcome)
        change.offset = self._append(voters.without_voter(key.node_id))

    # --- updating

    def handle_update(self, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
        """Update a voter in the voter set with its request; the update has taken effect when this returns.

        With kraft.version 0, when the log has no voters, it is kept for `upgrade`.
        """
        response = UpdateRaftVoterResponse()
        try:
            self._update(request)
        except StorageError:
            raise
        except KafkaError as error:
            response.error_code = error.code
        leader_id, epoch, endpoint = self._replica.known()
        if leader_id is not None and endpoint is not None:
            response.current_leader = CurrentLeader(
                leader_id=leader_id, leader_epoch=epoch, host=endpoint.host, port=endpoint.port
            )
        return response

    def _update(self, request: UpdateRaftVoterRequest) -> None:
        error = self._replica.error_for_leader(request.current_leader_epoch)
        if not self._replica.knows_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
        if error is not None:
            raise KafkaError(error)
        listeners = {each.name: Endpoint(each.host, each.port) for each in request.listeners}
        first, last = (
            request.kraft_version_feature.min_supported_version,
            request.kraft_version_feature.max_supported_version,
        )
        voter = Voter(request.voter_id, request.voter_directory_id, listeners, (first, last))
        level = self._replica.voters.kraft_version
        is_valid = voter.node_id >= 0 and voter.directory_id != ZERO_UUID and 0 <= first <= level <= last
        if not is_valid or self._replica.listener_name not in listeners:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if level > 0:
            voters = self._changeable_voters("updating")
        else:
            self._require_quiet()
            voters = self._updated or self._replica.voters.voters
        known = voters.voters.get(voter.node_id)
        if known is None or (level > 0 and known.key != voter.key):
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND)
        if level == 0:
            self._updated = voters.with_voter(voter)
        elif known != voter:
            self._append(voters.with_voter(voter))
        self._leader.note_alive(voter.key, self._replica.now_ms)

    # --- upgrade from static voters to voters in the log

    def upgrade(self, version: int, *, validate_only: bool) -> None:
        """Raise kraft.version to 1: write the voters, with the details that they sent, into the log.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION, a voter has not sent its directory id or does not support the version;
                REQUEST_TIMED_OUT, the leader is not settled yet.
        """
        replica = self._replica
        level = replica.voters.kraft_version
        if version == level:
            return
        if (level, version) != (0, 1):
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid upgrade of {KRAFT_VERSION_FEATURE} from version {level} to {version}",
            )
        self._require_quiet()
        voters = self._updated or replica.voters.voters
        local = replica.local
        if local.node_id in voters.voters:
            voters = voters.with_voter(Voter(local.node_id, local.directory_id, replica.listeners))
        for voter in voters.voters.values():
            first, last = voter.kraft_versions
            if voter.directory_id == ZERO_UUID or not first <= version <= last:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Invalid upgrade of {KRAFT_VERSION_FEATURE} from version {level} to {version}: voter "
                    f"{voter.node_id} has not reported its support to the leader; start it, and retry",
                )
        if not validate_only:
            self._leadership.append_control(
                self._leader, [KRaftVersionRecord(version=0, kraft_version=version), voters.to_message()]
            )
            logger.info("kraft.version is %d from now on: the voters %s are in the log", version, voters)

    # --- shared by all changes

    @property
    def _leader(self) -> LeaderState:
        leader = self._replica.quorum.leader
        assert leader is not None, "only a leader changes the voters"
        return leader

    def _require_leadership(self, cluster_id: str | None) -> None:
        replica = self._replica
        if not replica.knows_cluster(cluster_id):
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f'The given id "{cluster_id}" doesn\'t match the cluster id "{replica.cluster_id}"',
            )
        error = replica.error_for_leader(replica.quorum.epoch)
        if error is not None:
            raise KafkaError(error)

    def _require_quiet(self) -> None:
        """Reject a change while another is under way, or before it is known which ones are committed."""
        if self._change is not None:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        if self._leader.high_watermark is None:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to establish HWM and fence previous voter changes",
            )

    def _changeable_voters(self, doing: str) -> VoterSet:
        """Return the voters, which must be committed.

        Raises:
            KafkaError: they cannot be changed now, or not at all.
        """
        self._require_quiet()
        history, high_watermark = self._replica.voters, self._leader.high_watermark or 0
        if history.kraft_version == 0:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {doing} voter because the {KRAFT_VERSION_FEATURE} feature is 0",
            )
        if history.voters_offset >= high_watermark:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{history.voters_offset} with HWM {high_watermark}",
            )
        return history.voters

    def _start_change(self, what: str, outcome: Outcome) -> _Change:
        self._change = _Change(what, outcome, self._deadline_ms())
        return self._change

    def _deadline_ms(self) -> int:
        return self._replica.now_ms + self._replica.config.request_timeout_ms

    def _append(self, voters: VoterSet) -> Offset:
        offset = self._leadership.append_control(self._leader, [voters.to_message()])
        logger.info("the voters of the metadata quorum are %s from offset %d on", voters, offset)
        return offset

    def _end(self, error: KafkaError | None) -> None:
        change, self._change = self._change, None
        assert change is not None, "nothing is under way"
        if error is not None:
            logger.info("the change to %s ended with %s", change.what, error)
        change.outcome(error)


def _code(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code


def _message(error: KafkaError | None) -> str | None:
    return None if error is None else error.message


def _is_kraft(feature: str) -> bool:
    return feature == KRAFT_VERSION_FEATURE


def _shown(listeners: Mapping[str, Endpoint]) -> str:
    return ", ".join(f"{name}://{endpoint}" for name, endpoint in listeners.items())
