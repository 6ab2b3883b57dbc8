"""``ottla user``: users with passwords (SCRAM), and their mechanisms."""

import sys
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_rows, output_option, talk

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.admin_security import ScramSecret

_MECHANISMS = {"scram-sha-256": 1, "scram-sha-512": 2}
_NAMES = {number: name.upper() for name, number in _MECHANISMS.items()}
_mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(_MECHANISMS)),
    help="May be given twice.  [default: scram-sha-512]",
)


@click.group()
def user() -> None:
    """List, add and remove users with passwords (SCRAM)."""


@user.command("list", cls=ExampleCommand, examples=["ottla user list", "ottla user list -o name"])
@output_option()
@bootstrap_option
@timeout_option
def list_(*, output: str, bootstrap: str, timeout_s: float) -> None:
    """List users that have a password, with mechanisms and iterations."""
    found = ask_brokers(bootstrap, timeout_s, lambda admin: admin.describe_scram())
    rows = [
        {
            "name": name,
            "mechanisms": [_NAMES.get(each, str(each)) for each in sorted(kept)],
            "iterations": max(kept.values()),
        }
        for name, kept in sorted(found.items())
    ]
    columns = [
        Column("NAME", "name"),
        Column("MECHANISMS", "mechanisms"),
        Column("ITERATIONS", "iterations", wide=True),
    ]
    emit_rows(rows, columns, output, kind="user")


@user.command(
    cls=ExampleCommand,
    examples=[
        "ottla user add alice                              # asks for the password",
        "ottla user add alice --password-stdin < secret    # for scripts: it is never an argument",
    ],
)
@click.argument("name")
@_mechanism_option
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
@bootstrap_option
@timeout_option
def add(
    *,
    name: str,
    mechanisms: tuple[str, ...],
    password_stdin: bool,
    iterations: int,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Set the password of a user; an existing one is replaced."""
    password = (
        sys.stdin.readline().rstrip("\r\n")
        if password_stdin
        else click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    )
    if not password:
        raise click.UsageError("the password is empty")
    chosen = mechanisms or ("scram-sha-512",)
    secrets = [_secret(_MECHANISMS[mechanism], password, iterations) for mechanism in chosen]
    ask_brokers(bootstrap, timeout_s, lambda admin: admin.alter_scram(upserts={name: secrets}))
    talk(f"user {name} may log in with {' and '.join(mechanism.upper() for mechanism in chosen)}")


@user.command(cls=ExampleCommand, examples=["ottla user remove alice --yes"])
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(_MECHANISMS)),
    help="Only this one; may be given twice.  [default: all that it has]",
)
@yes_option
@bootstrap_option
@timeout_option
def remove(*, name: str, mechanisms: tuple[str, ...], yes: bool, bootstrap: str, timeout_s: float) -> None:
    """Remove a user's password; open connections stay until they authenticate again."""
    wanted = {_MECHANISMS[mechanism] for mechanism in mechanisms} or set(_NAMES)

    async def look(admin: "AdminClient") -> list[int]:
        kept = (await admin.describe_scram([name])).get(name, {})
        found = sorted(wanted & set(kept))
        if not found:
            raise NotFoundError(f"there is no such password of {name}; ottla user list shows the existing ones")
        return found

    found = ask_brokers(bootstrap, timeout_s, look)
    confirm(f"Remove {' and '.join(_NAMES[each] for each in found)} of {name}?", yes=yes)
    deletions = [(name, each) for each in found]
    ask_brokers(bootstrap, timeout_s, lambda admin: admin.alter_scram(deletions=deletions))
    talk(f"user {name} may not log in with {' and '.join(_NAMES[each] for each in found)} any more")


def _secret(mechanism: int, password: str, iterations: int) -> "ScramSecret":
    import secrets

    from ottla.client.admin_security import ScramSecret
    from ottla.sasl.scram import ScramMechanism, new_salt, salted_password

    salt = new_salt(secrets.randbelow)
    return ScramSecret(
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(ScramMechanism(mechanism), password, salt, iterations),
    )
