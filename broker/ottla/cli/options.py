"""Options that many commands share, and the default address of brokers."""

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.security import ClientSecurity

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
COMMAND_CONFIG = "ottla.command_config"
"""The key of the client properties' path in click's context."""
COMMAND_CONFIG_VARIABLE = "OTTLA_COMMAND_CONFIG"
DEFAULT_TIMEOUT_S = 30.0
FIRST_RESPONSE_S = 3.0
"""How long a command retries to connect before it reports that no broker responds; a starting node is up by then."""
ResultT = TypeVar("ResultT")


def bootstrap_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-b/--bootstrap-server``, whose default is `default_bootstrap`, and ``--command-config``."""
    with_bootstrap = click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        default=default_bootstrap,
        help="Address of brokers.  [default: of --command-config, $OTTLA_BOOTSTRAP, the local cluster, or "
        "127.0.0.1:9092]",
    )(function)
    return command_config_option(with_bootstrap)


def command_config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--command-config``; see `command_security` and `command_properties`."""
    return click.option(
        "--command-config",
        metavar="FILE",
        envvar=COMMAND_CONFIG_VARIABLE,
        show_envvar=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        expose_value=False,
        is_eager=True,
        callback=_keep_command_config,
        help="TLS and SASL: the client.properties of Kafka's own tools.",
    )(function)


def _keep_command_config(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    context.meta[COMMAND_CONFIG] = path


def command_security() -> "ClientSecurity | None":
    """Return the settings of ``--command-config`` of this command; None if it was not given.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    path = _command_config()
    if path is None:
        return None
    from ottla.client.security import ClientSecurity

    return ClientSecurity.from_file(path)


def command_properties() -> Mapping[str, str]:
    """Return the properties in ``--command-config`` of this command; none if it was not given.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    path = _command_config()
    if path is None:
        return {}
    from ottla.config.properties import parse_properties

    command_security()
    return parse_properties(path.read_text(encoding="utf-8"))


def _command_config() -> Path | None:
    context = click.get_current_context(silent=True)
    path: Path | None = None if context is None else context.meta.get(COMMAND_CONFIG)
    return path


def timeout_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--timeout`` in seconds."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for brokers.",
    )(function)


def throttle_option(lifted: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds ``--throttle`` in bytes per second; ``lifted`` is the help about its removal."""
    return click.option(
        "--throttle",
        "rate_bytes_per_s",
        type=click.IntRange(min=1),
        metavar="BYTES",
        help=f"Let each broker copy at most so many bytes per second for it{lifted}.",
    )


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-y/--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(function)


def dry_run_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--dry-run``."""
    return click.option("--dry-run", is_flag=True, help="Only check; change nothing.")(function)


def properties_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-c/--config`` and ``--override``, the input of `node_properties`."""
    with_overrides = click.option(
        "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Use instead of the file's value."
    )(function)
    return click.option(
        "-c",
        "--config",
        "file",
        required=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The node's server.properties.",
    )(with_overrides)


def node_properties(file: Path, overrides: tuple[str, ...]) -> dict[str, str]:
    """Return the properties in ``file``, overridden by ``overrides``."""
    from ottla.config.properties import parse_properties

    return parse_properties(file.read_text(encoding="utf-8")) | key_values(overrides, "--override")


def directory_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--dir``, the directory of the local cluster and its objects."""
    return click.option(
        "--dir",
        "state_dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_state_directory,
        metavar="DIR",
        help="Directory of the local cluster.  [default: $OTTLA_HOME, or ottla in $XDG_DATA_HOME]",
    )(function)


def default_state_directory() -> Path:
    """Return the default directory of the local cluster."""
    if home := os.environ.get("OTTLA_HOME"):
        return Path(home)
    data_home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data_home) / "ottla"


class RemoteBrokers(ABC):
    """The object of a click context whose commands do not use the local brokers."""

    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Return their addresses; raises `OttlaError` if they cannot be found."""

    @abstractmethod
    def client_properties(self) -> Path | None:
        """Return the properties to connect with; None if none are needed. Raises `OttlaError` if they are missing."""

    @abstractmethod
    def cluster_identity(self) -> tuple[str, str]:
        """Return namespace and name of their Cluster object; raises `OttlaError` if it cannot be found."""

    @abstractmethod
    def objects(self, resource: str) -> "list[dict[str, Any]]":
        """Return the objects of every namespace that may refer to the Cluster; raises `OttlaError` if it cannot."""


def default_bootstrap() -> str:
    """Return the address of brokers, from the first of these that has one.

    The context's `RemoteBrokers`, ``bootstrap.servers`` of ``--command-config``, ``$OTTLA_BOOTSTRAP``, the local
    cluster while it runs, port 9092 of this host. The command authenticates to a secured local cluster as its
    administrator, unless ``--command-config`` has credentials.
    """
    context = click.get_current_context(silent=True)
    if context is not None and isinstance(context.obj, RemoteBrokers):
        found = context.obj.bootstrap_servers()
        # An environment variable refers to the local cluster; only the command line refers to this one.
        if context.get_parameter_source("command_config") is not click.core.ParameterSource.COMMANDLINE:
            context.meta[COMMAND_CONFIG] = context.obj.client_properties()
        return found
    security = command_security()
    if security is not None and security.bootstrap_servers is not None:
        return security.bootstrap_servers
    if servers := os.environ.get("OTTLA_BOOTSTRAP"):
        return servers
    local = _local_cluster(default_state_directory())
    if local is None:
        return DEFAULT_BOOTSTRAP
    if local.administrator is not None and security is None and context is not None:
        context.meta[COMMAND_CONFIG] = local.administrator
        return default_bootstrap()
    return local.bootstrap_servers


class _LocalCluster(NamedTuple):
    """The local cluster, as `ottla up` has recorded it."""

    bootstrap_servers: str
    administrator: Path | None
    """The client properties of the administrator; None without authentication."""


def _local_cluster(state_dir: Path) -> _LocalCluster | None:
    """Return the cluster of ``state_dir``; None if there is none, or it was stopped.

    A stopped cluster must not hide a node that `ottla dev` runs.
    """
    files = sorted((state_dir / "objects" / "cluster").glob("*.yaml"))
    if not files or not any((state_dir / "nodes").glob("*/process.json")):
        return None
    import yaml

    try:
        document = yaml.safe_load(files[0].read_text(encoding="utf-8"))
        servers, name = document["status"]["bootstrapServers"], document["metadata"]["name"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    if not (isinstance(servers, str) and servers):
        return None
    administrator = state_dir / "secrets" / f"{name}-operator" / "client.properties"
    return _LocalCluster(servers, administrator if administrator.is_file() else None)


def key_values(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Read ``KEY=VALUE`` arguments.

    Raises:
        click.UsageError: one has no equals sign.
    """
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} takes KEY=VALUE, not {pair!r}")
        values[key.strip()] = value
    return values


def ask_brokers(
    bootstrap: str, timeout_s: float, conversation: "Callable[[AdminClient], Awaitable[ResultT]]"
) -> ResultT:
    """Run ``conversation`` with a connected AdminClient and return what it returns."""
    import asyncio

    from ottla.client.admin import AdminClient

    security = command_security()

    async def run() -> ResultT:
        client = AdminClient(bootstrap, request_timeout_s=timeout_s, connect_timeout_s=timeout_s, security=security)
        async with client as admin:
            await admin.cluster.reach(timeout_s=min(timeout_s, FIRST_RESPONSE_S))
            return await conversation(admin)

    return asyncio.run(run())
