"""Settings of each part, from the node's configuration: one function per part."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, cast

from ottla.config.broker_keys import BROKER_KEYS, parse_broker_value
from ottla.config.key import parse_value
from ottla.config.layers import BrokerLayers, log_settings, topic_values
from ottla.config.listener_overrides import listener_key, listener_text
from ottla.config.listeners import Listener
from ottla.config.node_config import NodeConfig
from ottla.config.resource_type import ConfigResourceType
from ottla.controller.config import ControllerConfig
from ottla.errors import ConfigurationError
from ottla.handlers.api import ListenerRole
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.config import LogConfig
from ottla.log.maintenance import LogManagerConfig
from ottla.log.meta_properties import MetaProperties, read_meta_properties
from ottla.log.open_files import OPEN_FILES_MAX
from ottla.membership.broker_lifecycle import BrokerLifecycleConfig
from ottla.metadata.cache import MetadataCache
from ottla.metadata.cluster import Listener as RegisteredListener
from ottla.metadata.cluster import SecurityProtocol
from ottla.metadata.configs import EVERY_BROKER, ConfigResource, ConfigsImage
from ottla.metadata.snapshot_generator import SnapshotGeneratorConfig
from ottla.network.connection_manager import ConnectionLimits
from ottla.peers.config import PeerClientConfig
from ottla.ports import Disk
from ottla.purgatory.memory_budget import MemoryBudget
from ottla.raft.config import RaftConfig
from ottla.raft.voter_set import Voter, VoterSet
from ottla.replication.config import ReplicationConfig
from ottla.sasl.client_login import ClientLogin, Login, TokenLogin
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.security import principal_mapping
from ottla.security.authorizer import AclAuthorizer, AllowEveryone, Authorizer
from ottla.security.principal_mapping import PrincipalMapping
from ottla.security.quotas.client_quotas import QuotaConfig
from ottla.security.quotas.throttles import BROKER_CONNECTION_RATE
from ottla.types import ZERO_UUID
from ottla.wire.acl_codes import ANONYMOUS_PRINCIPAL

NEVER_MS = (1 << 62) - 1
UNLIMITED_DESCRIPTORS: Final = 2**31 - 1
_DESCRIPTORS_KEPT_MAX: Final = 512
_TOKEN_BYTES_MAX = 1024 * 1024
_REQUEST_MEMORY_BYTES = 256 * 1024 * 1024
"""For queued.max.request.bytes=-1, unless two of the largest requests are more."""
_WORK_MEMORY_BYTES = 64 * 1024 * 1024
"""A few threads work at a time: more memory would only let work wait for them."""


def open_files_max(descriptor_limit: int) -> int:
    """Return how many segments may be open at once: at most half of the process's descriptors."""
    return max(1, min(OPEN_FILES_MAX, descriptor_limit // 2))


def connections_max(config: NodeConfig, descriptor_limit: int) -> int:
    """Return max.connections, lowered to the descriptors that are left for clients.

    An eighth of the limit, 512 at most, is kept for connections between nodes, indexes, checkpoints, and the reserve.
    """
    kept = open_files_max(descriptor_limit) + min(_DESCRIPTORS_KEPT_MAX, descriptor_limit // 8)
    return max(1, min(config.max_connections, descriptor_limit - kept))


def connection_limits(
    config: NodeConfig, descriptor_limit: int = UNLIMITED_DESCRIPTORS, memory_limit_bytes: int | None = None
) -> ConnectionLimits:
    return ConnectionLimits(
        request_size_bytes_max=config.socket_request_max_bytes,
        connections_max=connections_max(config, descriptor_limit),
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        idle_ms_max=idle_ms_max(config),
        request_memory_bytes_max=request_memory_bytes_max(config, memory_limit_bytes),
        privileged_listeners=privileged_listeners(config),
    )


def idle_ms_max(config: NodeConfig) -> int:
    """Return connections.max.idle.ms; practically infinite if it is negative."""
    idle_ms = config.connections_max_idle_ms
    return idle_ms if idle_ms >= 0 else NEVER_MS


def request_memory_bytes_max(config: NodeConfig, memory_limit_bytes: int | None = None) -> int:
    """Return queued.max.request.bytes; if it is -1, a limit that fits every request.

    It is at most a quarter of a control group's limit: unread responses may hold as much, and a check once a second
    would be too late for the bytes that arrive within a second.
    """
    if config.queued_max_request_bytes > 0:
        return config.queued_max_request_bytes
    bytes_max = max(_REQUEST_MEMORY_BYTES, 2 * config.socket_request_max_bytes)
    return bytes_max if memory_limit_bytes is None else max(1, min(bytes_max, memory_limit_bytes // 4))


def work_memory(config: NodeConfig) -> MemoryBudget:
    """Return the memory budget of work off the loop, besides the requests: a quarter of theirs, 64 MiB at most."""
    return MemoryBudget(min(request_memory_bytes_max(config) // 4, _WORK_MEMORY_BYTES))


def privileged_listeners(config: NodeConfig) -> frozenset[str]:
    """Return the listeners that only nodes use: the controllers', and the inter-broker one if clients have another."""
    names = set(config.controller_listener_names)
    if len(config.broker_listeners) > 1:
        names.add(config.inter_broker_listener_name)
    return frozenset(names)


def authorizer(config: NodeConfig) -> Authorizer:
    """Return the authorizer of clients' requests."""
    if not config.authorizer_class_name:
        return AllowEveryone()
    return AclAuthorizer(
        super_users=config.super_user_principals, allow_if_no_acl_found=config.allow_everyone_if_no_acl_found
    )


def principal_mappings(config: NodeConfig) -> dict[str, PrincipalMapping]:
    """Return, for each listener with SSL, the mapping from certificate subjects to principals.

    Raises:
        ConfigurationError: the mapping rules cannot be parsed.
    """
    key = principal_mapping.KEY
    return {
        it.name: PrincipalMapping(str(parse_broker_value(key, listener_text(config.originals, it.name, key))))
        for it in config.listeners
        if it.security_protocol == "SSL"
    }


def quota_config(config: NodeConfig) -> QuotaConfig:
    return QuotaConfig(
        window_count=config.quota_window_num,
        window_size_seconds=config.quota_window_size_seconds,
        mutation_window_count=config.controller_quota_window_num,
        mutation_window_size_seconds=config.controller_quota_window_size_seconds,
    )


def listener_connection_rates(config: NodeConfig) -> dict[str, int]:
    """Return listener.name.X.max.connection.creation.rate of the listeners that have one."""
    texts = {it.name: config.properties.get(listener_key(it.name, BROKER_CONNECTION_RATE)) for it in config.listeners}
    key = BROKER_KEYS[BROKER_CONNECTION_RATE]
    return {name: cast(int, parse_value(key, text)) for name, text in texts.items() if text is not None}


def log_manager_config(config: NodeConfig, descriptor_limit: int = UNLIMITED_DESCRIPTORS) -> LogManagerConfig:
    return LogManagerConfig(
        open_files_max=open_files_max(descriptor_limit),
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        flush_check_interval_ms=config.log_flush_scheduler_interval_ms,
        recovery_point_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        log_start_offset_checkpoint_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
        high_watermark_checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        producer_id_expiration_check_interval_ms=config.producer_id_expiration_check_interval_ms,
        cleaner=cleaner_config(config),
    )


def cleaner_config(config: NodeConfig) -> CleanerConfig:
    return CleanerConfig(
        is_enabled=config.log_cleaner_enable,
        threads=config.log_cleaner_threads,
        backoff_ms=config.log_cleaner_backoff_ms,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes=config.log_cleaner_io_buffer_size,
        io_bytes_per_second_max=config.log_cleaner_io_max_bytes_per_second,
    )


APPEND_LINGER: Final = "controller.quorum.append.linger.ms"


def own_principal(config: NodeConfig) -> str:
    """Return the principal of this node at the controllers' listener, or a description if it is not known here."""
    listener = config.controller_listener_names[0]
    login = config.sasl.logins.get(listener)
    if login is not None:
        return f"User:{login.user}" if login.user else f"the subject of its token in {login.token_path}"
    if config.listener_security_protocol_map.get(listener) == "SSL":
        return "the subject of its certificate"
    return ANONYMOUS_PRINCIPAL


def raft_config(config: NodeConfig) -> RaftConfig:
    return RaftConfig(
        segment_size_bytes_max=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_size_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_ms_max=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        append_linger_ms=config.controller_quorum_append_linger_ms if APPEND_LINGER in config.originals else 0,
        fetch_size_bytes_max=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_size_bytes_max=config.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=config.controller_quorum_auto_join_enable,
        own_principal=own_principal(config),
    )


def peer_client_config(config: NodeConfig) -> PeerClientConfig:
    idle_ms = idle_ms_max(config)
    return PeerClientConfig(
        client_id=f"ottla-node-{config.node_id}",
        connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        # Below the limit of the peers, whose configuration is the same: so that this side closes.
        idle_ms_max=idle_ms - idle_ms // 10,
    )


def peer_logins(config: NodeConfig, disk: Disk) -> dict[str, Login]:
    """Return this node's credentials at other nodes, by listener; a token's file is read for every authentication."""
    return {
        listener: TokenLogin(partial(_read_token, disk, login.token_path))
        if login.token_path
        else ClientLogin(login.mechanism, login.user, login.password)
        for listener, login in config.sasl.logins.items()
    }


def _read_token(disk: Disk, path: str) -> str:
    try:
        file = disk.open(path, read_only=True)
        try:
            return file.pread(_TOKEN_BYTES_MAX, 0).decode()
        finally:
            file.close()
    except (OSError, UnicodeDecodeError) as error:
        raise AuthenticationFailedError(f"the file with this node's token cannot be read: {path}: {error}") from None


def replication_config(config: NodeConfig) -> ReplicationConfig:
    return ReplicationConfig(
        inter_broker_listener=config.inter_broker_listener_name,
        fetcher_count=config.num_replica_fetchers,
        lag_time_max_ms=config.replica_lag_time_max_ms,
        fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
        fetch_min_bytes=config.replica_fetch_min_bytes,
        fetch_max_bytes=config.replica_fetch_max_bytes,
        fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
        fetch_backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
        confirmation_age_max_ms=_confirmation_age_max_ms(config),
        follower_silence_max_ms=config.ottla_broker_response_timeout_ms,
        selector_class=config.replica_selector_class or "",
        leader_throttled_rate=config.leader_replication_throttled_rate,
        follower_throttled_rate=config.follower_replication_throttled_rate,
        directory_move_threads=config.num_replica_alter_log_dirs_threads or 0,
        directory_move_rate=config.replica_alter_log_dirs_io_max_bytes_per_second,
        directory_move_window_count=config.alter_log_dirs_replication_quota_window_num,
        directory_move_window_size_seconds=config.alter_log_dirs_replication_quota_window_size_seconds,
        quota_window_count=config.replication_quota_window_num,
        quota_window_size_seconds=config.replication_quota_window_size_seconds,
    )


def _confirmation_age_max_ms(config: NodeConfig) -> int:
    """Return the shortest time after which a silent broker is fenced, and others lead its partitions.

    At least two waits of a follower's fetch: a follower that has nothing to fetch confirms once in each.
    """
    session_ms = config.broker_session_timeout_ms
    fencing_ms = min(config.ottla_broker_response_timeout_ms or session_ms, session_ms)
    return max(fencing_ms, 2 * config.replica_fetch_wait_max_ms)


def lifecycle_config(config: NodeConfig) -> BrokerLifecycleConfig:
    return BrokerLifecycleConfig(
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        initial_registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        own_principal=own_principal(config),
    )


def topic_log_config(config: NodeConfig, metadata: MetadataCache) -> Callable[[str], LogConfig]:
    """Return a look-up of topic settings: the topic's own take precedence over the broker's dynamic and static ones."""
    resolved: dict[str, LogConfig] = {}
    resolved_from: list[ConfigsImage] = []

    def of_topic(topic: str) -> LogConfig:
        configs = metadata.image.configs
        if not resolved_from or resolved_from[0] is not configs:
            # Between two changes of any configuration, thousands of partitions look up the same few topics.
            resolved.clear()
            resolved_from[:] = [configs]
        found = resolved.get(topic)
        if found is None:
            found = resolved[topic] = resolve(topic, configs)
        return found

    def resolve(topic: str, configs: ConfigsImage) -> LogConfig:
        layers = BrokerLayers(
            static=config.originals,
            dynamic_default=configs.of(EVERY_BROKER),
            dynamic_broker=configs.of(ConfigResource(ConfigResourceType.BROKER, str(config.node_id))),
        )
        return LogConfig(**log_settings(topic_values(layers, metadata.topic_config(topic))))

    return of_topic


def static_voters(config: NodeConfig) -> VoterSet | None:
    """Return controller.quorum.voters; None if the voters are kept in the metadata log (KIP-853)."""
    if not config.controller_quorum_voters:
        return None
    listener = config.controller_listener_names[0]
    return VoterSet.of(
        Voter(voter.node_id, ZERO_UUID, {listener: voter.endpoint}) for voter in config.controller_quorum_voters
    )


def controller_config(config: NodeConfig) -> ControllerConfig:
    return ControllerConfig(
        session_timeout_ms=config.broker_session_timeout_ms,
        response_timeout_ms=config.ottla_broker_response_timeout_ms,
        idle_interval_ms=config.metadata_max_idle_interval_ms,
        default_partition_count=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        static=config.originals,
        listeners=registered_listeners(config.advertised_controller_listeners),
        inter_broker_listener_name=config.inter_broker_listener_name,
        unclean_election_interval_ms=config.unclean_leader_election_interval_ms,
        leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        token_lifetime_ms_max=config.delegation_token_max_lifetime_ms,
        token_renewal_ms=config.delegation_token_expiry_time_ms,
        token_expiry_check_interval_ms=config.delegation_token_expiry_check_interval_ms,
    )


def registered_listeners(listeners: Iterable[Listener]) -> dict[str, RegisteredListener]:
    """Return listeners in the form of registrations."""
    return {it.name: RegisteredListener(it.host, it.port, SecurityProtocol[it.security_protocol]) for it in listeners}


def snapshot_config(config: NodeConfig) -> SnapshotGeneratorConfig:
    return SnapshotGeneratorConfig(
        size_bytes_max=config.metadata_log_max_record_bytes_between_snapshots,
        interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


def log_directories(config: NodeConfig) -> tuple[str, ...]:
    """Return log.dirs, followed by metadata.log.dir if it is not one of them."""
    if config.metadata_log_dir in config.log_dirs:
        return config.log_dirs
    return (*config.log_dirs, config.metadata_log_dir)


def listener_roles(config: NodeConfig) -> dict[str, ListenerRole]:
    """Return the role of each listener: whether it serves the controllers' or the brokers' APIs."""
    controllers = config.controller_listener_names
    return {
        it.name: ListenerRole.CONTROLLER if it.name in controllers else ListenerRole.BROKER for it in config.listeners
    }


def require_formatted(disk: Disk, directory: str) -> MetaProperties:
    """Return meta.properties of the metadata log directory.

    Raises:
        ConfigurationError: the directory was not formatted, or the file is malformed.
        StorageError: the disk failed.
    """
    properties = read_meta_properties(disk, directory)
    if properties is None:
        raise ConfigurationError(
            f"{directory} is not formatted: there is no meta.properties in it. Run `ottla format -t CLUSTER_ID "
            "-c FILE` with the cluster's id first; with --standalone only for the first controller of a new cluster."
        )
    return properties
