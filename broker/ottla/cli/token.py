"""``ottla token``: delegation tokens, with which a client authenticates as their owner for a limited time."""

import base64
import re
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.durations import read_duration
from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_descriptions, emit_pairs, emit_rows, output_option, talk
from ottla.cli.record_format import iso_time

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.admin_tokens import DescribedToken


@click.group()
def token() -> None:
    """Create, list, renew and expire delegation tokens."""


class _Principal(click.ParamType[str]):
    """A principal with its type."""

    name = "principal"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if re.fullmatch(r"[^:]+:.+", value) is None:
            self.fail(f"{value!r} is no principal; write it with its type, as in User:alice", param, ctx)
        return value


_PRINCIPAL = _Principal()


@token.command(
    "create",
    cls=ExampleCommand,
    examples=[
        "ottla token create --command-config alice.properties",
        "ottla token create --renewer User:scheduler --lifetime 12h -o json --command-config alice.properties",
    ],
)
@click.option("--owner", type=_PRINCIPAL, help="User:NAME.  [default: the user of --command-config]")
@click.option("--renewer", "renewers", multiple=True, type=_PRINCIPAL, help="User:NAME; may be repeated.")
@click.option("--lifetime", "lifetime_ms", callback=read_duration, help="As in 12h.  [default: the cluster's maximum]")
@output_option()
@bootstrap_option
@timeout_option
def create(
    *,
    owner: str | None,
    renewers: tuple[str, ...],
    lifetime_ms: int | None,
    output: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Create a token, and show its id (a user name) and its HMAC (the password), for SCRAM with tokenauth=true."""
    wanted_ms = -1 if lifetime_ms is None else lifetime_ms
    created = ask_brokers(
        bootstrap,
        timeout_s,
        lambda admin: admin.create_token(owner=owner, renewers=renewers, lifetime_ms=wanted_ms),
    )
    row = _row(created) | {"hmac": base64.b64encode(created.hmac).decode()}
    emit_descriptions([row], output, lambda each: emit_pairs(list(each.items())))


@token.command("list", cls=ExampleCommand, examples=["ottla token list", "ottla token list --owner User:alice -o json"])
@click.option("--owner", "owners", multiple=True, type=_PRINCIPAL, help="User:NAME; may be repeated.")
@output_option()
@bootstrap_option
@timeout_option
def list_(*, owners: tuple[str, ...], output: str, bootstrap: str, timeout_s: float) -> None:
    """List the tokens that you may see, without their secrets: own ones, those to renew, and by permission others."""
    found = ask_brokers(bootstrap, timeout_s, lambda admin: admin.describe_tokens(owners or None))
    columns = [
        Column("ID", "name"),
        Column("OWNER", "owner"),
        Column("RENEWERS", "renewers"),
        Column("EXPIRES", "expires"),
        Column("REQUESTER", "requester", wide=True),
        Column("ISSUED", "issued", wide=True),
        Column("MAX LIFETIME", "renewable_until", wide=True),
    ]
    emit_rows([_row(each) for each in found], columns, output, kind="token")


@token.command(cls=ExampleCommand, examples=["ottla token renew eXZ3...", "ottla token renew eXZ3... --for 6h"])
@click.argument("token_id", metavar="ID")
@click.option("--for", "period_ms", callback=read_duration, help="From now, as in 6h.  [default: the cluster's]")
@bootstrap_option
@timeout_option
def renew(*, token_id: str, period_ms: int | None, bootstrap: str, timeout_s: float) -> None:
    """Extend a token, which its owner and its renewers may, up to its maximum lifetime."""

    async def extend(admin: "AdminClient") -> int:
        found = await _find(admin, token_id)
        return await admin.renew_token(found.hmac, period_ms=-1 if period_ms is None else period_ms)

    expiry_ms = ask_brokers(bootstrap, timeout_s, extend)
    talk(f"token {token_id} expires at {iso_time(expiry_ms)}")


@token.command(cls=ExampleCommand, examples=["ottla token expire eXZ3... --yes", "ottla token expire eXZ3... --in 5m"])
@click.argument("token_id", metavar="ID")
@click.option("--in", "period_ms", callback=read_duration, help="As in 5m.  [default: at once]")
@yes_option
@bootstrap_option
@timeout_option
def expire(*, token_id: str, period_ms: int | None, yes: bool, bootstrap: str, timeout_s: float) -> None:
    """Let a token expire; connections that authenticated with it stay until the time that it was valid then."""
    found = ask_brokers(bootstrap, timeout_s, lambda admin: _find(admin, token_id))
    confirm(f"Let token {token_id} of {found.owner} expire?", yes=yes)
    wanted_ms = -1 if period_ms is None else period_ms
    expiry_ms = ask_brokers(bootstrap, timeout_s, lambda admin: admin.expire_token(found.hmac, period_ms=wanted_ms))
    talk(f"token {token_id} expires at {iso_time(expiry_ms)}" if period_ms is not None else f"token {token_id} is gone")


async def _find(admin: "AdminClient", token_id: str) -> "DescribedToken":
    """Return the token, with the HMAC that the other calls need: no secret has to be on a command line."""
    found = [each for each in await admin.describe_tokens() if each.token_id == token_id]
    if not found:
        raise NotFoundError(f"there is no token {token_id} that you may see; ottla token list shows the others")
    return found[0]


def _row(described: "DescribedToken") -> dict[str, Any]:
    return {
        "name": described.token_id,
        "owner": described.owner,
        "requester": described.requester,
        "renewers": list(described.renewers),
        "issued": iso_time(described.issue_ms),
        "expires": iso_time(described.expiry_ms),
        "renewable_until": iso_time(described.max_ms),
    }
