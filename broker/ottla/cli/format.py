"""``ottla format``: prepare a node's directories, as ``kafka-storage format`` does."""

from pathlib import Path

import click

from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import key_values, node_properties, properties_option


@click.command(
    "format",
    cls=ExampleCommand,
    examples=[
        "ottla format -t MkU3OEVBNTcwNTJENDM2Qk -c server.properties --standalone",
        "ottla format -t MkU3OEVBNTcwNTJENDM2Qk -c server.properties --ignore-formatted \\",
        "    --initial-controllers 1@host:9093:JEXY6aqzQY-32P5TStzaFg",
    ],
)
@click.option("-t", "--cluster-id", required=True, help="The cluster's id, the same for each of its nodes.")
@properties_option
@click.option("-s", "--standalone", is_flag=True, help="This controller is the only initial voter.")
@click.option("-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRID,...", help="The quorum's first voters.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="This controller joins a quorum later.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave formatted directories as they are.")
@click.option("-r", "--release-version", metavar="VERSION", help="The initial metadata.version.  [default: newest]")
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="The initial level of a feature."
)
@click.option(
    "-S",
    "--add-scram",
    "scram",
    multiple=True,
    metavar="MECHANISM=[name=USER,password=...]",
    help="An initial SCRAM credential of the cluster; also iterations, salt and saltedpassword (base64).",
)
def format_(
    *,
    cluster_id: str,
    file: Path,
    overrides: tuple[str, ...],
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    scram: tuple[str, ...],
) -> None:
    """Prepare the log directories of a new node."""
    from ottla.cli.storage import format_node
    from ottla.config.node_config import NodeConfig

    levels = {}
    for name, level in key_values(features, "--feature").items():
        if not level.isdigit():
            raise click.UsageError(f"--feature {name}={level}: a level is a number")
        levels[name] = int(level)
    lines = format_node(
        NodeConfig.from_properties(node_properties(file, overrides)),
        cluster_id,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        ignore_formatted=ignore_formatted,
        release_version=release_version,
        features=levels,
        scram=scram,
    )
    for line in lines:
        click.echo(line)
