"""A node with a server.properties of its own: formats its directory, and returns its command for `new_node`."""

import sys
from collections.abc import Callable
from pathlib import Path

from node_formatting import format_directories

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
OTTLA = [sys.executable, "-m", "ottla"]


def format_node(directory: Path, settings: dict[str, str]) -> Path:
    """Write server.properties in ``directory``, format the log directories that it names, and return its path."""
    config = directory / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    format_directories(config, CLUSTER_ID, "--standalone")
    return config


def ottla_command(
    controller_port: int, settings_in: Callable[[Path], dict[str, str]]
) -> Callable[[int, Path], list[str]]:
    """Return what formats the directory of an Ottla node and returns the command that runs it.

    ``settings_in(directory)`` returns log.dirs, and whatever else the test needs.
    """

    def command_of(port: int, directory: Path) -> list[str]:
        controller = f"127.0.0.1:{controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
        }
        config = format_node(directory, settings | settings_in(directory))
        return [*OTTLA, "run", "-c", str(config), "--log-level", "info"]

    return command_of
