"""``ottla quota``: quotas of users, client ids and addresses."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, key_values, timeout_option
from ottla.cli.output import Column, emit_rows, output_option, talk

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.admin_security import QuotaEntity

_KEYS = (
    "producer_byte_rate, consumer_byte_rate (bytes a second), request_percentage (of a core), controller_mutation_rate "
    "(partitions a second); for addresses connection_creation_rate (a second)"
)


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the entity of a quota; an empty name is the default."""
    function = click.option("--ip", metavar="ADDRESS", help="An address; '' for all without a quota of their own.")(
        function
    )
    function = click.option("--client-id", metavar="ID", help="A client id; '' for all others.")(function)
    return click.option("--user", metavar="NAME", help="A user; '' for all others.")(function)


@click.group()
def quota() -> None:
    """List, set and remove client quotas."""


@quota.command("list", cls=ExampleCommand, examples=["ottla quota list", "ottla quota list -o json"])
@output_option("table", "json", "yaml")
@bootstrap_option
@timeout_option
def list_(*, output: str, bootstrap: str, timeout_s: float) -> None:
    """List all quotas."""
    found = ask_brokers(bootstrap, timeout_s, lambda admin: admin.describe_client_quotas())
    rows = [
        {
            "user": _shown(entity.user),
            "clientId": _shown(entity.client_id),
            "ip": _shown(entity.ip),
            "key": key,
            "value": value,
        }
        for entity, limits in found.items()
        for key, value in limits.items()
    ]
    rows.sort(key=lambda row: tuple(str(value) for value in row.values()))
    columns = [
        Column("USER", "user"),
        Column("CLIENT-ID", "clientId"),
        Column("IP", "ip"),
        Column("KEY", "key"),
        Column("VALUE", "value"),
    ]
    emit_rows(rows, columns, output, kind="quota")


@quota.command(
    "set",
    cls=ExampleCommand,
    examples=[
        "ottla quota set --user alice producer_byte_rate=1048576",
        "ottla quota set --client-id '' consumer_byte_rate=10485760      # every client id without its own",
        "ottla quota set --ip 10.0.0.9 connection_creation_rate=5",
    ],
    epilog=f"Keys: {_KEYS}.",
)
@_entity_options
@click.argument("limits", nargs=-1, required=True, metavar="KEY=VALUE...")
@bootstrap_option
@timeout_option
def set_(*, limits: tuple[str, ...], bootstrap: str, timeout_s: float, **named: str | None) -> None:
    """Set limits of a user, a client id, both, or an address."""
    wanted: dict[str, float | None] = {}
    for key, text in key_values(limits, "quota set").items():
        try:
            wanted[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{key} takes a number, not {text!r}") from None
    entity = _entity(named)
    ask_brokers(bootstrap, timeout_s, lambda admin: admin.alter_client_quotas({entity: wanted}))
    talk(f"{entity_in_words(entity)}: {', '.join(limits)}")


@quota.command(
    cls=ExampleCommand,
    examples=["ottla quota remove --user alice", "ottla quota remove --user alice producer_byte_rate"],
)
@_entity_options
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@bootstrap_option
@timeout_option
def remove(*, keys: tuple[str, ...], bootstrap: str, timeout_s: float, **named: str | None) -> None:
    """Remove limits, all of them unless keys are named."""
    entity = _entity(named)

    async def conversation(admin: "AdminClient") -> list[str]:
        present = (await admin.describe_client_quotas(entity)).get(entity, {})
        gone = [key for key in present if not keys or key in keys]
        missing = sorted(set(keys) - set(present))
        if missing or not gone:
            raise NotFoundError(f"{entity_in_words(entity)} has no limit {', '.join(missing)}".rstrip())
        await admin.alter_client_quotas({entity: dict.fromkeys(gone)})
        return gone

    talk(f"{entity_in_words(entity)}: removed {', '.join(ask_brokers(bootstrap, timeout_s, conversation))}")


def _entity(named: dict[str, str | None]) -> "QuotaEntity":
    from ottla.client.admin_security import QuotaEntity

    entity = QuotaEntity(user=named["user"], client_id=named["client_id"], ip=named["ip"])
    if not entity.names() or (entity.ip is not None and len(entity.names()) > 1):
        raise click.UsageError("name a user, a client id or both; or an address alone")
    return entity


def _shown(name: str | None) -> str | None:
    return "<default>" if name == "" else name


def entity_in_words(entity: "QuotaEntity") -> str:
    """Return the entity of a quota for messages, as ``user alice, client-id <default>``."""
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity.names().items())
