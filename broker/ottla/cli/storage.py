"""Format a node's directories, for `ottla format` and `ottla dev`."""

from ottla.config.node_config import NodeConfig
from ottla.metadata.bootstrap import parse_release_version
from ottla.metadata.format import FormatOptions, format_storage, parse_initial_controllers
from ottla.metadata.metadata_version import LATEST_METADATA_VERSION
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.system_random import SystemRandom
from ottla.types import format_uuid


def random_cluster_id() -> str:
    """Return a new cluster id, like ``kafka-storage random-uuid``."""
    return format_uuid(SystemRandom().uuid())


def format_node(
    config: NodeConfig,
    cluster_id: str,
    *,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
    ignore_formatted: bool = False,
    release_version: str | None = None,
    features: dict[str, int] | None = None,
    scram: tuple[str, ...] = (),
) -> list[str]:
    """Format the directories of ``config``; return the messages to print, a line each.

    Raises:
        ConfigurationError: the options contradict each other or the configuration, or a directory is formatted.
        StorageError: an I/O error.
    """
    directories = list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir]))
    listener = config.controller_listener_names[0]
    options = FormatOptions(
        cluster_id=cluster_id,
        node_id=config.node_id,
        log_directories=directories,
        metadata_log_directory=config.metadata_log_dir,
        is_controller=config.is_controller,
        static_voters=bool(config.controller_quorum_voters),
        standalone=standalone,
        initial_controllers=parse_initial_controllers(initial_controllers, listener) if initial_controllers else (),
        no_initial_controllers=no_initial_controllers,
        listeners={listener.name: listener.endpoint for listener in config.advertised_controller_listeners},
        ignore_formatted=ignore_formatted,
        metadata_version=parse_release_version(release_version) if release_version else LATEST_METADATA_VERSION,
        features=features or {},
        scram=scram,
    )
    # No sync runs off the loop here, so there are no completions to run.
    disk = OsDisk(lambda completion: completion())
    try:
        return format_storage(disk, SystemClock(), SystemRandom(), options)
    finally:
        disk.close()
