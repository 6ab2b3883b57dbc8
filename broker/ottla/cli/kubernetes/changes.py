"""``kubectl ottla roll``, ``undo``, ``pause``, ``resume``, ``scale``: all of them only change the Cluster object."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError, UnhealthyError
from ottla.cli.kubernetes.kubectl import CLUSTERS, Document, condition_of
from ottla.cli.kubernetes.nodes import is_ready, pods
from ottla.cli.kubernetes.target import Target
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import yes_option
from ottla.cli.output import confirm, talk
from ottla.cli.progress import ProgressBar
from ottla.errors import OttlaError

RESTART_ANNOTATION = "ottla.dev/restart"
_POLL_INTERVAL_S = 1.0
_ROLL_TIMEOUT_S = 3_600.0


@click.command(cls=ExampleCommand, examples=["kubectl ottla roll", "kubectl ottla roll --no-wait"])
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when all nodes have been restarted.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=_ROLL_TIMEOUT_S, show_default=True,
    metavar="SECONDS", help="How long to wait; the roll continues after that.",
)  # fmt: skip
@click.pass_obj
def roll(target: Target, *, wait: bool, timeout_s: float) -> int:
    """Restart all nodes, each only when no data can be lost; a second roll starts again."""
    if target.document["spec"].get("paused"):
        raise OttlaError(f"Cluster {target.name} is paused; run kubectl ottla resume first")
    before = {pod["metadata"]["uid"] for pod in pods(target)}
    annotations = {RESTART_ANNOTATION: datetime.now(UTC).isoformat(timespec="seconds")}
    target.kubectl.merge(CLUSTERS, target.name, {"metadata": {"annotations": annotations}})
    if not wait:
        talk(f"Cluster {target.name} restarts its nodes; kubectl ottla status shows the progress")
        return ExitCode.OK
    _follow(target, before, timeout_s)
    talk(f"all {len(before)} nodes of Cluster {target.name} were restarted")
    return ExitCode.OK


def _follow(target: Target, before: set[str], timeout_s: float) -> None:
    """Return once each pod of ``before`` has been replaced by a ready one.

    Raises:
        UnhealthyError: the roll was halted, or timed out.
    """
    ends_s = time.monotonic() + timeout_s
    with ProgressBar("roll", total=len(before)) as bar:
        while True:
            seen, state = pods(target), target.refreshed().get("status", {})
            old = sum(pod["metadata"]["uid"] in before for pod in seen)
            operation, conditions = state.get("operation") or {}, state.get("conditions", [])
            bar.update(len(before) - old, note=operation.get("message", ""))
            if not old and seen and all(map(is_ready, seen)) and operation.get("kind") != "Roll":
                return
            halted = condition_of(conditions, "Degraded")
            if halted.get("status") == "True" and halted.get("reason") == "RollHalted":
                raise UnhealthyError(f"the roll was halted: {halted.get('message')}")
            if time.monotonic() > ends_s:
                said = operation.get("message") or condition_of(conditions, "Ready").get("message")
                raise UnhealthyError(f"{old} nodes are left after {timeout_s:g} s, and the roll continues: {said}")
            time.sleep(_POLL_INTERVAL_S)


@click.command(cls=ExampleCommand, examples=["kubectl ottla undo", "kubectl ottla undo --yes"])
@yes_option
@click.pass_obj
def undo(target: Target, *, yes: bool) -> None:
    """Roll back to the release that all nodes ran last, by version, or by image if no version has that image.

    Only nodes with another release are restarted.
    """
    # Imported here: most commands of the plugin do not need the operator.
    from ottla_operator.model.images import rollback_patch

    spec, status = target.document["spec"], target.document.get("status", {})
    last, image = status.get("image"), spec.get("image")
    if not last:
        raise NotFoundError(f"Cluster {target.name} has never had all nodes ready: there is no earlier release")
    fields = rollback_patch(
        image=image, version=spec.get("version"), known_image=last, known_version=status.get("version")
    )
    if not fields:
        talk(f"Cluster {target.name} has {last} in its spec already; kubectl ottla status shows other problems")
        return
    now = image or spec.get("version") or "what the operator chose"
    confirm(f"Go back from {now} to {fields.get('version') or last}?", yes=yes)
    target.kubectl.merge(CLUSTERS, target.name, {"spec": fields})
    changes = (f"spec.{name} is {'removed' if value is None else value}" for name, value in fields.items())
    talk(f"Cluster {target.name} goes back to {last}: {', '.join(changes)}")
    if image is None and "image" in fields:
        command = f"kubectl patch {CLUSTERS} {target.name} --type=merge -p '{json.dumps({'spec': {'image': None}})}'"
        talk(f"no version has that image, and it overrides spec.version until you remove it: {command}")


@click.command(cls=ExampleCommand, examples=["kubectl ottla pause"])
@click.pass_obj
def pause(target: Target) -> None:
    """Pause the reconciliation of the Cluster; brokers keep serving, and a roll stops after its step."""
    target.kubectl.merge(CLUSTERS, target.name, {"spec": {"paused": True}})
    talk(f"Cluster {target.name} is paused; kubectl ottla resume resumes it")


@click.command(cls=ExampleCommand, examples=["kubectl ottla resume"])
@click.pass_obj
def resume(target: Target) -> None:
    """Resume the reconciliation of a paused Cluster."""
    target.kubectl.merge(CLUSTERS, target.name, {"spec": {"paused": None}})
    talk(f"Cluster {target.name} is reconciled again")


@click.command(cls=ExampleCommand, examples=["kubectl ottla scale main=5", "kubectl ottla scale brokers=2 --yes"])
@click.argument("pool", metavar="POOL=NODES")
@yes_option
@click.pass_obj
def scale(target: Target, *, pool: str, yes: bool) -> None:
    """Change the number of nodes of a pool; nodes to remove are drained first."""
    name, equals, text = pool.partition("=")
    if not equals or not text.isdecimal():
        raise click.UsageError(f"POOL=NODES has a form like main=5, not {pool!r}")
    pools: list[Document] = target.document["spec"]["pools"]
    index = next((number for number, it in enumerate(pools) if it["name"] == name), None)
    if index is None:
        known = ", ".join(it["name"] for it in pools)
        raise NotFoundError(f"Cluster {target.name} has no pool {name}; it has {known}")
    before, nodes = pools[index]["nodes"], int(text)
    if nodes < before:
        confirm(f"Drain {before - nodes} nodes of pool {name} and stop them?", yes=yes)
    # Another client may have changed the list since it was read.
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": f"/spec/pools/{index}/name", "value": name},
        {"op": "test", "path": f"/spec/pools/{index}/nodes", "value": before},
        {"op": "replace", "path": f"/spec/pools/{index}/nodes", "value": nodes},
    ]
    target.kubectl.run("patch", CLUSTERS, target.name, "--type=json", f"--patch={json.dumps(patch)}")
    talk(f"pool {name} of Cluster {target.name} goes from {before} to {nodes} nodes")
