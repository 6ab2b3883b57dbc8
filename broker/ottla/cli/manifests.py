"""``ottla apply``, ``get``, ``delete``: Kubernetes manifests for the local cluster or any Kafka."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import (
    command_config_option,
    command_properties,
    directory_option,
    dry_run_option,
    timeout_option,
    yes_option,
)
from ottla.cli.output import Column, confirm, emit_rows, emit_value, output_option, talk

if TYPE_CHECKING:
    from ottla_operator.local import Outcome
    from ottla_operator.model.document import Document


def _brokers_option(function: Any) -> Any:  # noqa: ANN401 - a decorator
    with_bootstrap = click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        default=lambda: os.environ.get("OTTLA_BOOTSTRAP"),
        help="Brokers for Topics and Users.  [default: $OTTLA_BOOTSTRAP, or the local cluster]",
    )(function)
    # Of those brokers: the local cluster's own are known.
    return command_config_option(with_bootstrap)


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla apply -f examples/cluster.yaml -f examples/topic.yaml",
        "ottla apply -f topics/ --dry-run",
        "ottla apply -b kafka.example:9092 -f topic.yaml",
    ],
)
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE", help="A file, a folder, or -.")
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", show_default=True)
@dry_run_option
@_brokers_option
@directory_option
@timeout_option
def apply(
    *, files: tuple[str, ...], output: str, dry_run: bool, bootstrap: str | None, state_dir: Path, timeout_s: float
) -> int:
    """Apply manifests of clusters, topics and users; objects that match already are not changed."""
    from ottla_operator import local

    documents = _read(files)
    outcomes = local.apply(
        documents,
        state_dir=state_dir,
        bootstrap=bootstrap,
        properties=command_properties(),
        dry_run=dry_run,
        timeout_s=timeout_s,
    )
    if output == "text":
        for outcome in outcomes:
            _tell(outcome)
    else:
        emit_value([_plain(outcome) for outcome in outcomes], output)
    return _worst(outcomes)


def _canonical(kind: str) -> str:
    """Return the kind's own name.

    Raises:
        click.BadParameter: there is no such kind.
    """
    from ottla_operator import local
    from ottla_operator.errors import OperatorError

    try:
        return local.canonical_kind(kind)
    except OperatorError as error:
        raise click.BadParameter(str(error), param_hint="KIND") from error


def _read(files: tuple[str, ...]) -> "list[Document]":
    """Return the manifests in ``files``, at least one.

    Raises:
        NotFoundError: a file cannot be read, or none holds a manifest.
    """
    from ottla_operator import local

    try:
        documents = local.read_manifests([_source(name) for name in files])
    except OSError as error:
        raise NotFoundError(f"cannot read {error.filename}: {error.strerror}") from error
    if not documents:
        raise NotFoundError(f"no manifest in {', '.join(files)}")
    return documents


def _source(name: str) -> Path | TextIO:
    return sys.stdin if name == "-" else Path(name)


def _tell(outcome: "Outcome") -> None:
    """Print the object and its outcome on stdout, and its problem on stderr."""
    click.echo(f"{outcome.kind.lower()}/{outcome.name} {outcome.action}")
    if outcome.exit_code:
        talk(f"error: {outcome.kind.lower()}/{outcome.name}: {outcome.reason}: {outcome.message}")
    elif outcome.steps:
        for step in outcome.steps:
            talk(f"  {step}")


def _plain(outcome: "Outcome") -> dict[str, Any]:
    return {
        "kind": outcome.kind,
        "name": outcome.name,
        "action": outcome.action,
        "reason": outcome.reason,
        "message": outcome.message,
        "steps": list(outcome.steps),
    }


def _worst(outcomes: "list[Outcome]") -> int:
    """Return the code of the first object that was not applied; 0 if all were."""
    return next((int(outcome.exit_code) for outcome in outcomes if outcome.exit_code), ExitCode.OK)


@click.command(
    cls=ExampleCommand,
    examples=["ottla get clusters,topics,users", "ottla get topic flights -o yaml", "ottla get clusters -o wide"],
)
@click.argument("kinds", metavar="KIND[,...]")
@click.argument("name", required=False)
@output_option()
@_brokers_option
@directory_option
def get(*, kinds: str, name: str | None, output: str, bootstrap: str | None, state_dir: Path) -> None:
    """Show stored objects of each KIND (cluster, topic, user) with their current status."""
    from ottla_operator import local

    canonical = [_canonical(kind) for kind in kinds.split(",")]
    if name is not None and len(canonical) > 1:
        raise click.BadParameter("an object has one kind; give its name with that one", param_hint="KIND")
    found = [
        local.get(kind, name, state_dir=state_dir, bootstrap=bootstrap, properties=command_properties())
        for kind in canonical
    ]
    if name is not None and not found[0]:
        raise NotFoundError(f"there is no {canonical[0].lower()} {name} in {state_dir}")
    if output in ("json", "yaml"):
        emit_value(found[0][0] if name is not None else [document for objects in found for document in objects], output)
        return
    for index, (kind, objects) in enumerate(zip(canonical, found, strict=True)):
        if index and objects and output != "name":
            click.echo()
        emit_rows([_row(document) for document in objects], _COLUMNS, output, kind=kind.lower())


_COLUMNS = [
    Column("NAME", "name"),
    Column("READY", "ready"),
    Column("REASON", "reason"),
    Column("MESSAGE", "message"),
    Column("GENERATION", "generation", wide=True),
    Column("CREATED", "created", wide=True),
]


def _row(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    conditions = {entry["type"]: entry for entry in document.get("status", {}).get("conditions", ())}
    ready = conditions.get("Ready", {})
    return {
        "name": metadata["name"],
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason"),
        "message": ready.get("message"),
        "generation": metadata.get("generation"),
        "created": metadata.get("creationTimestamp"),
    }


@click.command(
    cls=ExampleCommand,
    examples=["ottla delete topic flights", "ottla delete -f examples/topic.yaml --yes"],
)
@click.argument("kind", required=False, metavar="[KIND")
@click.argument("names", nargs=-1, metavar="NAME...]")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Delete the objects of these manifests.")
@yes_option
@_brokers_option
@directory_option
@timeout_option
def delete(
    *,
    kind: str | None,
    names: tuple[str, ...],
    files: tuple[str, ...],
    yes: bool,
    bootstrap: str | None,
    state_dir: Path,
    timeout_s: float,
) -> int:
    """Delete objects; a topic's deletionPolicy decides whether its records are deleted, a cluster's data stays.

    A user's password, ACLs and quotas are deleted with it.
    """
    from ottla_operator import local

    if bool(kind) == bool(files) or (kind and not names):
        raise click.UsageError("give KIND NAME..., or -f FILE")
    if kind:
        chosen = [(_canonical(kind), name) for name in names]
    else:
        chosen = [local.identity(document) for document in _read(files)]
        # The reverse of the order of creation: a cluster is deleted after its topics and users.
        chosen.sort(key=lambda entry: entry[0] == "Cluster")
    for chosen_kind, name in chosen:
        talk(f"{chosen_kind.lower()}/{name}")
    confirm(f"Delete {len(chosen)} object(s)?", yes=yes)
    properties = command_properties()
    outcomes = [
        local.delete(
            chosen_kind, name, state_dir=state_dir, bootstrap=bootstrap, properties=properties, timeout_s=timeout_s
        )
        for chosen_kind, name in chosen
    ]
    for outcome in outcomes:
        _tell(outcome)
    return _worst(outcomes)
