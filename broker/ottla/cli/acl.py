"""``ottla acl``: permissions of users on topics, groups and other resources."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_rows, output_option, talk

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.wire.acl_codes import Acl
    from ottla.wire.acl_filter import AclFilter

_COLUMNS = [
    Column("PRINCIPAL", "principal"),
    Column("PERMISSION", "permission"),
    Column("OPERATION", "operation"),
    Column("RESOURCE", "resource"),
    Column("NAME", "name"),
    Column("PATTERN", "pattern"),
    Column("HOST", "host"),
]
_RESOURCES = ["topic", "group", "transactional-id", "delegation-token", "user"]
_OPERATIONS = [
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs",
    "alter-configs", "idempotent-write", "create-tokens", "describe-tokens", "two-phase-commit",
]  # fmt: skip


def _resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name resources."""
    function = click.option("--cluster", is_flag=True, help="The cluster itself.")(function)
    function = click.option("--prefixed", is_flag=True, help="The names are prefixes of names.")(function)
    for kind in reversed(_RESOURCES):
        option = click.option(
            f"--{kind}",
            kind.replace("-", "_"),
            multiple=True,
            metavar="NAME",
            help=f"A {kind.replace('-', ' ')}; '*' is every one.",
        )
        function = option(function)
    return function


@click.group()
def acl() -> None:
    """List, add and remove access control entries."""


@acl.command(
    "list",
    cls=ExampleCommand,
    examples=["ottla acl list", "ottla acl list --principal User:alice", "ottla acl list --topic orders -o json"],
)
@_resource_options
@click.option("--principal", metavar="TYPE:NAME", help="Only entries of this principal.")
@output_option("table", "json", "yaml")
@bootstrap_option
@timeout_option
def list_(*, principal: str | None, output: str, bootstrap: str, timeout_s: float, **named: Any) -> None:  # noqa: ANN401
    """List entries; with a resource all that apply to it, prefixes and '*' too."""
    filters = _filters(named, principal=principal)
    entries = ask_brokers(bootstrap, timeout_s, lambda admin: _entries(admin, filters))
    emit_rows([_row(entry) for entry in entries], _COLUMNS, output, kind="entry")


@acl.command(
    cls=ExampleCommand,
    examples=[
        "ottla acl add User:alice --allow read --topic orders --group audit",
        "ottla acl add User:bob --allow write --allow create --topic app. --prefixed",
        "ottla acl add User:eve --deny all --topic '*' --host 10.0.0.9",
    ],
)
@click.argument("principal", metavar="TYPE:NAME")
@click.option("--allow", multiple=True, type=click.Choice(_OPERATIONS), help="Operations to allow.")
@click.option(
    "--deny",
    multiple=True,
    type=click.Choice(_OPERATIONS),
    help="Operations to deny, even if another entry allows them.",
)
@click.option(
    "--host", "hosts", multiple=True, default=["*"], metavar="ADDRESS", help="The client's address.  [default: any]"
)
@_resource_options
@dry_run_option
@bootstrap_option
@timeout_option
def add(
    *,
    principal: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    hosts: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    **named: Any,  # noqa: ANN401
) -> None:
    """Add entries: each operation on each resource."""
    from ottla.wire.acl_codes import Acl, Operation, PermissionType, code_of

    if ":" not in principal:
        raise click.UsageError(f"a principal is TYPE:NAME, as in User:{principal}")
    resources = _resources(named)
    if not resources or not (allow or deny):
        raise click.UsageError("name at least one resource (--topic, --group, --cluster, ...) and --allow or --deny")
    entries = [
        Acl(*resource, principal, host, code_of(Operation, operation), permission)
        for resource in resources
        for permission, operations in ((PermissionType.ALLOW, allow), (PermissionType.DENY, deny))
        for operation in operations
        for host in hosts
    ]
    if not dry_run:
        ask_brokers(bootstrap, timeout_s, lambda admin: admin.create_acls(entries))
    for entry in entries:
        talk(f"{'would be added' if dry_run else 'added'}: {_in_words(entry)}")


@acl.command(
    cls=ExampleCommand,
    examples=["ottla acl remove --principal User:alice --yes", "ottla acl remove --topic orders --operation write"],
)
@_resource_options
@click.option("--principal", metavar="TYPE:NAME", help="Only entries of this principal.")
@click.option("--operation", type=click.Choice(_OPERATIONS), help="Only entries for this operation.")
@dry_run_option
@yes_option
@bootstrap_option
@timeout_option
def remove(
    *,
    principal: str | None,
    operation: str | None,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_s: float,
    **named: Any,  # noqa: ANN401
) -> None:
    """Remove entries of exactly these resources, principals and operations."""
    if principal is None and operation is None and not _resources(named):
        raise click.UsageError("name what to remove: a resource, --principal or --operation")
    filters = _filters(named, principal=principal, operation=operation, exactly=True)
    entries = ask_brokers(bootstrap, timeout_s, lambda admin: _entries(admin, filters))
    for entry in entries:
        talk(f"{'would be removed' if dry_run else 'to be removed'}: {_in_words(entry)}")
    if dry_run or not entries:
        talk(f"{len(entries)} entries match")
        return
    confirm(f"Remove {len(entries)} entries?", yes=yes)
    removed = ask_brokers(bootstrap, timeout_s, lambda admin: admin.delete_acls(filters))
    talk(f"{len(removed)} entries removed")


def _resources(named: dict[str, Any]) -> list[tuple[Any, str, Any]]:
    """Return type, name and pattern of the resources that the options name."""
    from ottla.wire.acl_codes import CLUSTER_NAME, PatternType, ResourceType, code_of

    pattern = PatternType.PREFIXED if named["prefixed"] else PatternType.LITERAL
    found: list[tuple[Any, str, Any]] = [
        (code_of(ResourceType, kind), name, pattern) for kind in _RESOURCES for name in named[kind.replace("-", "_")]
    ]
    if named["cluster"]:
        found.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def _filters(
    named: dict[str, Any], *, principal: str | None, operation: str | None = None, exactly: bool = False
) -> "list[AclFilter]":
    from ottla.wire.acl_codes import Operation, PatternType, code_of
    from ottla.wire.acl_filter import AclFilter

    wanted = Operation.ANY if operation is None else code_of(Operation, operation)
    resources = _resources(named)
    if not resources:
        return [AclFilter(principal=principal, operation=wanted)]
    return [
        AclFilter(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern if exactly or named["prefixed"] else PatternType.MATCH,
            principal=principal,
            operation=wanted,
        )
        for resource_type, name, pattern in resources
    ]


async def _entries(admin: "AdminClient", filters: "list[AclFilter]") -> "list[Acl]":
    """Return what any of ``filters`` matches, once and in order."""
    found = [await admin.describe_acls(one) for one in filters]
    return sorted({entry for entries in found for entry in entries})


def _row(entry: "Acl") -> dict[str, Any]:
    from ottla.wire.acl_codes import code_word

    return {
        "principal": entry.principal,
        "permission": code_word(entry.permission_type),
        "operation": code_word(entry.operation),
        "resource": code_word(entry.resource_type),
        "name": entry.resource_name,
        "pattern": code_word(entry.pattern_type),
        "host": entry.host,
    }


def _in_words(entry: "Acl") -> str:
    row = _row(entry)
    every = f"{row['resource']}s that begin with " if row["pattern"] == "prefixed" else f"{row['resource']} "
    where = "" if entry.host == "*" else f" from {entry.host}"
    return f"{entry.principal} {row['permission']} {row['operation']} on {every}{entry.resource_name}{where}"
