"""``kubectl ottla status``: a Cluster at a glance, with its operation and unhealthy members."""

import time
from typing import Any

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.kubernetes.kubectl import Document, condition_of
from ottla.cli.kubernetes.nodes import age, node_rows
from ottla.cli.kubernetes.target import Target
from ottla.cli.lazy import ExampleCommand
from ottla.cli.output import Column, emit_pairs, emit_table, emit_value, output_option

_WATCH_INTERVAL_S = 2.0
_NODE_COLUMNS = [
    Column("NODE", "name"),
    Column("STATE", "state"),
    Column("OUTDATED", "outdated"),
    Column("RESTARTS", "restarts"),
    Column("AGE", "age"),
    Column("RACK", "rack"),
    Column("IMAGE", "image", wide=True),
    Column("MACHINE", "machine", wide=True),
]
_MEMBERS = {"topics": "topics.ottla.dev", "users": "users.ottla.dev"}


@click.command(
    cls=ExampleCommand,
    examples=["kubectl ottla status", "kubectl ottla -n team-a status --watch", "kubectl ottla status -o json"],
)
@click.option("-w", "--watch", is_flag=True, help="Show it again every two seconds until Ctrl-C.")
@output_option("table", "wide", "json", "yaml")
@click.pass_obj
def status(target: Target, *, watch: bool, output: str) -> int:
    """Show the status of a Cluster. The exit code is 0 if it matches its manifest, 10 if not, 3 if there is none."""
    while True:
        found = _collect(target)
        if watch:
            click.clear()
        _emit(found, output)
        if not watch:
            ready = condition_of(found["conditions"], "Ready")
            return ExitCode.OK if ready.get("status") == "True" else ExitCode.UNHEALTHY
        time.sleep(_WATCH_INTERVAL_S)


def _collect(target: Target) -> dict[str, Any]:
    document = target.refreshed()
    state = document.get("status", {})
    return {
        "name": document["metadata"]["name"],
        "namespace": document["metadata"]["namespace"],
        "clusterId": state.get("clusterId"),
        "bootstrapServers": state.get("bootstrapServers"),
        "conditions": state.get("conditions", []),
        "operation": state.get("operation"),
        "nodes": node_rows(target),
        **{name: _members(target, resource) for name, resource in _MEMBERS.items()},
    }


def _members(target: Target, resource: str) -> dict[str, Any]:
    """Count the Topics or Users of the Cluster in its own namespace, and name those that are not ready."""
    found = [it for it in target.kubectl.get(resource)["items"] if _is_of(target, it)]
    waiting = {}
    for it in found:
        ready = condition_of(it.get("status", {}).get("conditions", []), "Ready")
        if ready.get("status") != "True":
            waiting[it["metadata"]["name"]] = _said(ready)
    return {"total": len(found), "notReady": waiting}


def _is_of(target: Target, member: Document) -> bool:
    namespace, reference = target.document["metadata"]["namespace"], member["spec"]["clusterRef"]
    return bool((reference.get("namespace", namespace), reference["name"]) == (namespace, target.name))


def _emit(found: dict[str, Any], output: str) -> None:
    if output in ("json", "yaml"):
        emit_value(found, output)
        return
    ready = condition_of(found["conditions"], "Ready")
    pairs: list[tuple[str, Any]] = [
        ("Cluster", f"{found['namespace']}/{found['name']}"),
        ("Ready", _words(ready)),
    ]
    pairs += [
        (kind, _words(condition))
        for kind in ("Degraded", "Paused")
        if (condition := condition_of(found["conditions"], kind)).get("status") == "True"
    ]
    if (operation := found["operation"]) is not None:
        pairs.append(("At work", _operation(operation)))
        pairs += [("  waits for", blocker) for blocker in operation.get("blockedBy", [])]
    pairs.append(("Begin at", found["bootstrapServers"]))
    pairs += [(name.capitalize(), _counted(found[name])) for name in _MEMBERS if found[name]["total"]]
    emit_pairs(pairs)
    for name in _MEMBERS:
        for member, why in found[name]["notReady"].items():
            click.echo(f"  {member}: {why}")
    click.echo()
    emit_table(found["nodes"], _NODE_COLUMNS, wide=output == "wide")


def _words(condition: Document) -> str:
    return f"{condition.get('status', 'Unknown')} ({_said(condition)})"


def _said(condition: Document) -> str:
    words = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
    return words or "not reconciled yet"


def _operation(operation: Document) -> str:
    done = f"{operation.get('done', 0)} of {operation['total']}" if operation.get("total") else ""
    where = f"node {operation['node']}" if operation.get("node") else ""
    since = f"for {age(operation.get('startedAt'))}" if operation.get("startedAt") else ""
    words = ", ".join(filter(None, (done, where, operation.get("step"), since)))
    said = operation.get("message", "")
    return f"{operation['kind']}: {words}" + (f"; {said}" if said else "")


def _counted(members: dict[str, Any]) -> str:
    return f"{members['total'] - len(members['notReady'])} of {members['total']} ready"
