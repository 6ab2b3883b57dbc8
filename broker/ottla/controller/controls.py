"""`Controls`: the handlers of requests to the active controller, one ``...Control`` per subject."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.controller.acls import AclControl
from ottla.controller.alter_partition import AlterPartitionControl
from ottla.controller.brokers import BrokerControl
from ottla.controller.client_quotas import ClientQuotaControl
from ottla.controller.config import ControllerConfig
from ottla.controller.configs import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE, ConfigControl
from ottla.controller.controller_registrations import ControllerRegistrationControl
from ottla.controller.delegation_tokens import DelegationTokenControl
from ottla.controller.directories import DirectoryControl
from ottla.controller.elect_leaders import ElectLeadersControl
from ottla.controller.features import FeatureControl
from ottla.controller.heartbeats import BrokerHeartbeats
from ottla.controller.last_known_leaders import LastKnownLeaders
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.periodic_elections import PeriodicElections
from ottla.controller.periodic_tasks import PeriodicTasks
from ottla.controller.pings import BrokerPings, PingBroker
from ottla.controller.probes import BrokerProbes, ProbeBroker
from ottla.controller.producer_ids import ProducerIdControl
from ottla.controller.reassignments import ReassignmentControl
from ottla.controller.result import ControllerResult
from ottla.controller.scram import ScramControl
from ottla.controller.state import ControllerState
from ottla.controller.topics import TopicControl
from ottla.metadata.records import MetadataRecord
from ottla.ports import Clock, Random
from ottla.raft.client import RaftClient
from ottla.security.delegation_tokens import DelegationTokens
from ottla.types import NodeId
from ottla.wire.codec import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.create_acls import CreateAclsRequest
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest

logger = logging.getLogger(__name__)


class Controls:
    """See the module; `by_request` is the table.

    ``probe`` checks whether a broker's process still listens, ``ping`` whether it responds; without them only sessions
    detect a failed broker.
    """

    def __init__(
        self,
        *,
        state: ControllerState,
        raft: RaftClient[MetadataRecord],
        clock: Clock,
        random: Random,
        node_id: NodeId,
        cluster_id: str,
        config: ControllerConfig,
        probe: ProbeBroker | None,
        ping: PingBroker | None,
        upgrade_kraft_version: Callable[[int, bool], None],
        tokens: DelegationTokens,
    ) -> None:
        self._state = state
        self._raft = raft
        self._clock = clock
        self.heartbeats = BrokerHeartbeats(config.session_timeout_ms)
        self.probes = BrokerProbes(
            probe=probe,
            listener=config.inter_broker_listener_name,
            session_timeout_ms=config.session_timeout_ms,
        )
        self.pings = BrokerPings(
            clock=clock,
            ping=ping,
            listener=config.inter_broker_listener_name,
            timeout_ms=config.response_timeout_ms,
            heartbeats=self.heartbeats,
            probes=self.probes,
        )
        self.configs = ConfigControl(self._state, node_id=node_id, static=config.static)
        self.last_known_leaders = LastKnownLeaders(self._state, self.heartbeats)
        leader_and_isr = self.leader_and_isr = LeaderAndIsrControl(self._state, self.configs, self.last_known_leaders)
        self.brokers = BrokerControl(self._state, leader_and_isr, self.heartbeats, cluster_id=cluster_id)
        self._topics = TopicControl(
            self._state,
            self.configs,
            random=random,
            default_partition_count=config.default_partition_count,
            default_replication_factor=config.default_replication_factor,
        )
        self.default_min_isr = config.static.get(MIN_INSYNC_REPLICAS, "1")
        self._features = FeatureControl(
            self._state,
            node_id=node_id,
            default_min_isr=self.default_min_isr,
            upgrade_kraft_version=upgrade_kraft_version,
        )
        self._producer_ids = ProducerIdControl(self._state)
        self._elections = ElectLeadersControl(self._state, leader_and_isr)
        self._partitions = AlterPartitionControl(
            self._state,
            self.configs,
            leader_and_isr,
            is_unsteady=lambda broker: self.probes.is_unsteady(broker, clock.monotonic_ms()),
        )
        self._reassignments = ReassignmentControl(self._state, self.configs, leader_and_isr)
        self._directories = DirectoryControl(self._state, leader_and_isr)
        self._members = ControllerRegistrationControl(self._state)
        self._acls = AclControl(self._state, random=random)
        self.scram = ScramControl(self._state, random=random)
        self._tokens = DelegationTokenControl(self._state, tokens, config, clock=clock, random=random)
        self._client_quotas = ClientQuotaControl(self._state)
        self.periodic_elections = _new_periodic_elections(self._state, self.configs, leader_and_isr, config)
        self.periodic = PeriodicTasks(self.periodic_elections, self._tokens)

    def by_request(self) -> dict[type[Message], Callable[..., ControllerResult[Any]]]:
        """Return the handler of each request."""

        def register(request: BrokerRegistrationRequest) -> ControllerResult[Any]:
            return self.brokers.register(
                request, next_offset=self._raft.log_end_offset, now_ms=self._clock.monotonic_ms()
            )

        def heartbeat(request: BrokerHeartbeatRequest) -> ControllerResult[Any]:
            now_ms = self._clock.monotonic_ms()
            decided = self.brokers.heartbeat(request, now_ms=now_ms)
            self.last_known_leaders.on_heartbeat(request.broker_id, request.current_metadata_offset)
            unsteady_ms = self.probes.on_heartbeat(self._state.image.cluster.brokers[request.broker_id], now_ms)
            if unsteady_ms is not None:
                logger.warning(
                    "broker %d is alive, though it was fenced for not responding; for the next %d ms it joins only ISRs"
                    " that lack members",
                    request.broker_id,
                    unsteady_ms,
                )
            return decided

        def alter_configs(alter: Callable[[Any], ControllerResult[Any]], request: Message) -> ControllerResult[Any]:
            decided = alter(request)
            if any(
                each and getattr(each.message, "name", "") == UNCLEAN_LEADER_ELECTION_ENABLE for each in decided.records
            ):
                self.periodic_elections.elect_unclean_soon(self._clock.monotonic_ms())
            return decided

        def update_features(request: UpdateFeaturesRequest) -> ControllerResult[Any]:
            return self._features.update(
                request, kraft_version=self._raft.kraft_version, voter_ids=self._raft.voters.node_ids
            )

        return {
            AllocateProducerIdsRequest: self._producer_ids.allocate,
            AlterClientQuotasRequest: self._client_quotas.alter,
            AlterConfigsRequest: partial(alter_configs, self.configs.alter_fully),
            AlterPartitionReassignmentsRequest: self._reassignments.alter,
            AlterPartitionRequest: self._partitions.alter_partition,
            AlterUserScramCredentialsRequest: self.scram.alter,
            AssignReplicasToDirsRequest: self._directories.assign,
            BrokerHeartbeatRequest: heartbeat,
            BrokerRegistrationRequest: register,
            ControllerRegistrationRequest: self._members.register,
            CreateAclsRequest: self._acls.create,
            CreateDelegationTokenRequest: self._tokens.create,
            CreatePartitionsRequest: self._topics.create_partitions,
            CreateTopicsRequest: self._topics.create_topics,
            DeleteAclsRequest: self._acls.delete,
            DeleteTopicsRequest: self._topics.delete_topics,
            ElectLeadersRequest: self._elections.elect_leaders,
            ExpireDelegationTokenRequest: self._tokens.expire,
            IncrementalAlterConfigsRequest: partial(alter_configs, self.configs.alter_incrementally),
            ListPartitionReassignmentsRequest: self._reassignments.list,
            RenewDelegationTokenRequest: self._tokens.renew,
            UnregisterBrokerRequest: self.brokers.unregister,
            UpdateFeaturesRequest: update_features,
        }


def _new_periodic_elections(
    state: ControllerState, configs: ConfigControl, leader_and_isr: LeaderAndIsrControl, config: ControllerConfig
) -> PeriodicElections:
    return PeriodicElections(
        state,
        configs,
        leader_and_isr,
        balance_interval_ms=config.leader_imbalance_check_interval_ms if config.leader_rebalance_enable else None,
        unclean_interval_ms=config.unclean_election_interval_ms,
    )
