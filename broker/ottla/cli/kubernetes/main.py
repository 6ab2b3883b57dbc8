"""The root of ``kubectl ottla``: commands for a Cluster in Kubernetes, and ``ottla``'s commands for brokers."""

from collections.abc import Sequence

import click

from ottla.cli.kubernetes.kubectl import Kubectl
from ottla.cli.kubernetes.target import Target
from ottla.cli.lazy import Entry, LazyGroup
from ottla.cli.main import SECTIONS as OTTLA
from ottla.cli.main import run

NAME = "kubectl ottla"
_HERE = "ottla.cli.kubernetes"
FROM_OTTLA = (
    "export",
    "topic",
    "produce",
    "consume",
    "user",
    "acl",
    "quota",
    "broker",
    "partition",
    "reassign",
    "quorum",
    "group",
    "txn",
    "doctor",
)
"""Commands that are the same as ``ottla``'s."""
_OTTLA = {name: entry for entries in OTTLA.values() for name, entry in entries.items()} | {
    "reassign": Entry("ottla.cli.partition:reassign", "Move partitions to other brokers")
}

SECTIONS = {
    "The Cluster": {
        "status": Entry(f"{_HERE}.status:status", "Show its operation and its nodes"),
        "roll": Entry(f"{_HERE}.changes:roll", "Restart its nodes without data loss"),
        "undo": Entry(f"{_HERE}.changes:undo", "Roll back to the release that all nodes ran last"),
        "pause": Entry(f"{_HERE}.changes:pause", "Pause its reconciliation"),
        "resume": Entry(f"{_HERE}.changes:resume", "Resume its reconciliation"),
        "scale": Entry(f"{_HERE}.changes:scale", "Change the number of nodes of a pool"),
        "rebalance": Entry(f"{_HERE}.rebalance:rebalance", "Balance its brokers, by a plan"),
    },
    "As ottla, through a port-forward": {name: _OTTLA[name] for name in FROM_OTTLA},
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Topics and records are reached as the administrator of the cluster, unless --user names a User.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Of the Cluster.  [default: kubectl's]")
@click.option("--context", "context_name", metavar="NAME", help="Of kubectl's configuration.")
@click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="Instead of kubectl's own.")
@click.option("--cluster", metavar="NAME", help="The Cluster.  [default: the only one in the namespace]")
@click.option("--user", metavar="NAME", help="Authenticate with the Secret of this User.")
@click.version_option(package_name="ottla", prog_name=NAME, message="%(prog)s %(version)s")
@click.pass_context
def cli(
    context: click.Context,
    *,
    namespace: str | None,
    context_name: str | None,
    kubeconfig: str | None,
    cluster: str | None,
    user: str | None,
) -> None:
    """Ottla on Kubernetes: see what a Cluster is at, steer it, and talk to its brokers from here."""
    given = {"--namespace": namespace, "--context": context_name, "--kubeconfig": kubeconfig}
    options = [f"{option}={value}" for option, value in given.items() if value is not None]
    context.obj = Target(Kubectl(options=options), name=cluster, user=user)
    context.call_on_close(context.obj.close)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` unless given) and return its exit code."""
    return run(cli, arguments, name=NAME)
