"""``kubectl ottla rebalance``: plan a rebalance, then carry it out, by an annotation of the Cluster."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError, UnhealthyError
from ottla.cli.kubernetes.kubectl import CLUSTERS, Document
from ottla.cli.kubernetes.target import Target
from ottla.cli.lazy import ExampleCommand
from ottla.cli.output import talk
from ottla.cli.progress import ProgressBar

ANNOTATION = "ottla.dev/rebalance"
_SHOWN = ("summary.txt", "brokers.txt")
_POLL_INTERVAL_S = 1.0
_PLAN_TIMEOUT_S = 60.0


@click.command(
    cls=ExampleCommand,
    examples=[
        "kubectl ottla rebalance                       # creates a plan and shows it",
        "kubectl ottla rebalance --execute r3f09c2d41b7e   # carries it out",
        "kubectl ottla rebalance --stop                # starts no further move",
    ],
)
@click.option("--execute", "plan", metavar="ID", help="Carry out the plan of this id.")
@click.option("--stop", is_flag=True, help="Start no further move; those in progress complete.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when all has moved.")
@click.pass_obj
def rebalance(target: Target, *, plan: str | None, stop: bool, wait: bool) -> int:
    """Balance racks, replicas, bytes and leaders by few moves."""
    if stop and plan is not None:
        raise click.UsageError("--execute and --stop exclude each other")
    if stop:
        _annotate(target, None)
        talk(f"Cluster {target.name} starts no further move")
    elif plan is None:
        _show_new_plan(target)
    else:
        _execute(target, plan, wait=wait)
    return ExitCode.OK


def _show_new_plan(target: Target) -> None:
    # A timestamp makes the annotation differ from that of an earlier request.
    request = f"plan {datetime.now(UTC).isoformat(timespec='seconds')}"
    _annotate(target, request)
    plan = _wait(target, request, lambda it: it.get("request") == request, "plan", _PLAN_TIMEOUT_S)
    texts = target.kubectl.get("configmap", f"{target.name}-rebalance")["data"]
    click.echo("\n".join(texts[entry].rstrip() for entry in _SHOWN))
    talk(f"all moves: kubectl get configmap {target.name}-rebalance -o yaml")
    talk(f"next: kubectl ottla rebalance --execute {plan['id']}")


def _execute(target: Target, plan: str, *, wait: bool) -> None:
    known = target.document.get("status", {}).get("rebalance") or {}
    if known.get("id") != plan:
        raise NotFoundError(f"Cluster {target.name} has no plan {plan}; kubectl ottla rebalance creates one")
    _annotate(target, plan)
    if not wait:
        talk(f"Cluster {target.name} carries out plan {plan}; kubectl ottla status shows the progress")
        return
    _wait(target, plan, _is_carried_out, "move", None)
    talk(f"plan {plan} is carried out")


def _is_carried_out(record: Document) -> bool:
    if record.get("phase") == "Stale":
        raise UnhealthyError(f"the plan does not apply any more: {record.get('message')}")
    return record.get("phase") == "Done"


def _annotate(target: Target, text: str | None) -> None:
    target.kubectl.merge(CLUSTERS, target.name, {"metadata": {"annotations": {ANNOTATION: text}}})


def _wait(
    target: Target, request: str, is_done: Callable[[Document], bool], title: str, timeout_s: float | None
) -> Document:
    """Return ``status.rebalance`` once it is done.

    Raises:
        UnhealthyError: the annotation was changed or removed meanwhile, or the time is over.
    """
    ends_s = None if timeout_s is None else time.monotonic() + timeout_s
    with ProgressBar(title) as bar:
        while True:
            document = target.refreshed()
            state = document.get("status", {})
            record, operation = state.get("rebalance") or {}, state.get("operation") or {}
            if (document["metadata"].get("annotations") or {}).get(ANNOTATION) != request:
                raise UnhealthyError(
                    "the request was replaced meanwhile; kubectl ottla status shows the current operation"
                )
            if is_done(record):
                return dict(record)
            if ends_s is not None and time.monotonic() > ends_s:
                raise UnhealthyError(f"there is no plan after {timeout_s:g} s; kubectl ottla status shows the reason")
            if operation.get("kind") == "Rebalance":
                bar.update(operation.get("done", 0), total=operation.get("total", 0), note=operation.get("message", ""))
            time.sleep(_POLL_INTERVAL_S)
