"""`ClientPlane`: a node's handler services and its client connections."""

import logging
from collections.abc import Callable, Mapping

from ottla.client_metrics.manager import ClientMetricsManager
from ottla.config.node_config import NodeConfig
from ottla.config.sasl_settings import read_sasl_listeners
from ottla.errors import ConfigurationError
from ottla.handlers.auto_create import create_internal_topic
from ottla.handlers.services import Services
from ottla.network.connection_manager import ConnectionLimits, ConnectionManager
from ottla.node import settings
from ottla.node.data_plane import DataPlane
from ottla.node.isolation import Isolation
from ottla.node.metadata_plane import MetadataPlane
from ottla.ports import Background, Clock, KeySource, Network, Random
from ottla.quoting import one_line
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.security.authorizer import Authorizer
from ottla.security.denials import Denials
from ottla.security.quotas.client_quotas import ClientQuotas
from ottla.types import SHARE_GROUP_STATE_TOPIC, NodeId, Offset

logger = logging.getLogger(__name__)


class ClientPlane:
    """Quotas, services of the handlers, and the connection manager.

    Args of the constructor: see `node.Node`, besides
        on_heartbeats_ended: see `ConnectionManager`.
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        clock: Clock,
        random: Random,
        network: Network,
        background: Background,
        metadata_plane: MetadataPlane,
        data_plane: DataPlane,
        authorizer: Authorizer,
        check_tls: Callable[[Mapping[str, str]], None],
        key_source: KeySource | None,
        descriptor_limit: int,
        memory_limit_bytes: int | None,
        on_heartbeats_ended: Callable[[NodeId, Offset], None],
    ) -> None:
        self._descriptor_limit = descriptor_limit
        self._memory_limit_bytes = memory_limit_bytes
        self.quotas = ClientQuotas(clock, settings.quota_config(config))
        self._set_connection_rates(config)
        self.services = Services(
            clock=clock,
            random=random,
            background=background,
            work_memory=settings.work_memory(config),
            config=config,
            cluster_id=metadata_plane.cluster_id,
            metadata=metadata_plane.cache,
            raft=metadata_plane.raft,
            controller=metadata_plane.channel,
            logs=data_plane.logs,
            replicas=data_plane.replicas,
            fetch_sessions=FetchSessionCache(
                random=random,
                slots_max=config.max_incremental_fetch_session_cache_slots,
                bytes_max=config.ottla_fetch_session_cache_bytes,
            ),
            groups=data_plane.groups,
            transactions=data_plane.transactions,
            transaction_verifier=data_plane.transaction_verifier,
            share_coordinator=data_plane.share_coordinator,
            producer_ids=data_plane.producer_ids,
            authorizer=authorizer,
            denials=Denials(clock),
            check_tls=check_tls,
            quotas=self.quotas,
            delegation_tokens=metadata_plane.delegation_tokens,
            client_metrics=_new_client_metrics(config, clock, random),
            share_partitions=data_plane.share_partitions,
        )
        data_plane.persister.on_missing_topic = lambda: create_internal_topic(self.services, SHARE_GROUP_STATE_TOPIC)
        self.connections = ConnectionManager(
            services=self.services,
            network=network,
            config=self._connection_limits(config),
            roles=settings.listener_roles(config),
            security_protocols={it.name: it.security_protocol for it in config.listeners},
            principal_mappings=settings.principal_mappings(config),
            on_heartbeats_ended=on_heartbeats_ended,
            on_follower_ended=data_plane.replicas.disconnected_leaders.suspect,
            scram=metadata_plane.scram,
            key_source=key_source,
        )
        self.isolation = Isolation(
            replicas=data_plane.replicas,
            in_contact_until_ms=lambda: metadata_plane.raft.in_contact_until_ms,
            disconnect_clients=self.connections.disconnect_clients,
        )

    def use_config(self, config: NodeConfig) -> None:
        """Apply settings that were changed while the node runs."""
        self.services.config = config
        self.connections.config = self._connection_limits(config)
        self._set_connection_rates(config)
        try:
            sasl = read_sasl_listeners(config.properties, config.listeners, config.listener_security_protocol_map)
            self.connections.authentication.use(sasl)
        except ConfigurationError as error:
            logger.warning(
                "changed SASL settings cannot be used, the node keeps its current ones: %s", one_line(str(error))
            )

    def _connection_limits(self, config: NodeConfig) -> ConnectionLimits:
        return settings.connection_limits(config, self._descriptor_limit, self._memory_limit_bytes)

    def _set_connection_rates(self, config: NodeConfig) -> None:
        self.quotas.connection_rates.set_rates(
            config.max_connection_creation_rate, settings.listener_connection_rates(config)
        )


def _new_client_metrics(config: NodeConfig, clock: Clock, random: Random) -> ClientMetricsManager:
    return ClientMetricsManager(
        clock, random, receivers=config.ottla_client_metrics_receivers, bytes_max=config.telemetry_max_bytes
    )
