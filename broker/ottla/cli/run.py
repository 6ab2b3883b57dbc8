"""``ottla run``: one node in the foreground, as in a container."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import node_properties, properties_option

if TYPE_CHECKING:
    from ottla.runtime.assembly import NodeHandle

LOG_LEVELS = ("debug", "info", "warning", "error")


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla run --config server.properties",
        "ottla run --config server.properties --override broker.rack=a --log-level debug",
    ],
)
@properties_option
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
def run(file: Path, overrides: tuple[str, ...], log_level: str) -> int:
    """Run one node until SIGTERM or Ctrl-C; its directories must be formatted (ottla format)."""
    import logging

    from ottla.config.node_config import NodeConfig
    from ottla.runtime.assembly import run_node

    set_up_logging(log_level)
    logger = logging.getLogger("ottla")
    config = NodeConfig.from_properties(node_properties(file, overrides))
    for warning in config.warnings:
        logger.warning("%s", warning)

    def report(handle: "NodeHandle") -> None:
        listeners = ", ".join(str(listener) for listener in handle.listeners)
        logger.info("node %d is ready at %s", config.node_id, listeners)

    return run_node(config, on_ready=report)


def set_up_logging(level: str) -> None:
    """Log to stderr, one line per event, times in UTC."""
    import logging

    from ottla.runtime.log_format import LogFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
