"""``ottla doctor``: diagnoses a cluster, or a connection that fails, and prints the problems and their remedies.

From the outside in: the address, the protocol at the port, TLS, authentication; then, through an address that accepts
this client, the advertised addresses, the quorum, the brokers, the partitions, and the permissions of this user. A
check that depends on a failed one is skipped.
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import bootstrap_option, command_security
from ottla.cli.output import emit_value, may_color, output_option

if TYPE_CHECKING:
    from ottla.cli.doctor_checks.finding import Finding
    from ottla.client.security import ClientSecurity
    from ottla.types import Endpoint

CHECK_TIMEOUT_S = 5.0
_SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow")}
_BAD = "red"
_SIGN_WIDTH = 9


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla doctor",
        "ottla doctor -b broker.example:9094 --command-config client.properties",
        "ottla doctor --topic orders --group audit -o json",
    ],
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Show the permissions of this user on a topic.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Show the permissions of this user on a group.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=CHECK_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="How long one check may take.",
)
@output_option("table", "json", "yaml")
@bootstrap_option
def doctor(
    *, topics: tuple[str, ...], groups: tuple[str, ...], timeout_s: float, output: str, bootstrap: str
) -> ExitCode:
    """Diagnose a cluster or a connection, and suggest remedies.

    The exit code is 0 if all is well, 5 if no broker can be reached, 4 if authentication or authorization fails, 10 if
    there is another problem.
    """
    import asyncio

    from ottla.client.security import ClientSecurity

    security = command_security() or ClientSecurity()

    async def run() -> "list[Finding]":
        findings = []
        async for finding in examine(bootstrap, security, timeout_s, topics=topics, groups=groups):
            findings.append(finding)
            if output == "table":
                _show(finding)
        return findings

    findings = asyncio.run(run())
    code = exit_code(findings)
    if output == "table":
        bad = sum(finding.status.is_failure for finding in findings)
        click.echo(f"{len(findings)} checks, {bad} failed" if bad else f"{len(findings)} checks, all is well")
    else:
        emit_value({"exitCode": int(code), "findings": [_row(finding) for finding in findings]}, output)
    return code


def exit_code(findings: "Sequence[Finding]") -> ExitCode:
    """Return the code of the failure that must be fixed first."""
    failures = {finding.status.value for finding in findings if finding.status.is_failure}
    if not failures:
        return ExitCode.OK
    if not any(finding.check == "tcp" and not finding.status.is_failure for finding in findings):
        return ExitCode.TIMEOUT
    return ExitCode.DENIED if "denied" in failures else ExitCode.UNHEALTHY


async def examine(
    bootstrap: str, security: "ClientSecurity", timeout_s: float, *, topics: Sequence[str], groups: Sequence[str]
) -> "AsyncIterator[Finding]":
    """Yield findings as checks finish.

    Raises:
        ConfigurationError: ``bootstrap`` is no list of addresses, or a file that ``security`` names cannot be used.
    """
    from ottla.config.listeners import parse_bootstrap_text

    endpoints = parse_bootstrap_text(bootstrap)
    security.tls_context()
    entrances = []
    for endpoint in endpoints:
        is_open = True
        async for finding in _examine_entrance(endpoint, security, timeout_s):
            is_open = is_open and not finding.status.is_failure
            yield finding
        if is_open:
            entrances.append(endpoint)
    if entrances:
        async for finding in _examine_cluster(entrances, security, timeout_s, topics, groups):
            yield finding


async def _examine_entrance(
    endpoint: "Endpoint", security: "ClientSecurity", timeout_s: float
) -> "AsyncIterator[Finding]":
    """Yield the findings of one address; no failure if this client can use it."""
    from ottla.cli.doctor_checks.address import check_address
    from ottla.cli.doctor_checks.certificates import check_certificate
    from ottla.cli.doctor_checks.login import check_login
    from ottla.cli.doctor_checks.protocol import check_protocol
    from ottla.cli.doctor_checks.protocol_detection import detect_protocol

    is_well = True
    async for finding in check_address(endpoint, timeout_s):
        is_well = not finding.status.is_failure
        yield finding
    if not is_well:
        return
    finding = check_protocol(endpoint, await detect_protocol(endpoint, timeout_s), security.protocol)
    yield finding
    if finding.status.is_failure:
        return
    if security.tls is not None:
        async for finding in check_certificate(endpoint, security, timeout_s):
            is_well = is_well and not finding.status.is_failure
            yield finding
    if is_well:
        async for finding in check_login(endpoint, security, timeout_s):
            yield finding


async def _examine_cluster(
    entrances: "Sequence[Endpoint]",
    security: "ClientSecurity",
    timeout_s: float,
    topics: Sequence[str],
    groups: Sequence[str],
) -> "AsyncIterator[Finding]":
    """Yield the findings of the cluster and of this user's permissions."""
    from ottla.cli.doctor_checks.advertised import check_advertised
    from ottla.cli.doctor_checks.finding import Finding, Status
    from ottla.cli.doctor_checks.health import check_health
    from ottla.cli.doctor_checks.permissions import check_permissions
    from ottla.client.admin import AdminClient
    from ottla.errors import OttlaError

    def new_client() -> AdminClient:
        return AdminClient(
            entrances,
            client_id="ottla-doctor",
            request_timeout_s=timeout_s,
            connect_timeout_s=timeout_s,
            security=security,
        )

    async with new_client() as admin:
        try:
            brokers = (await admin.describe_cluster(include_fenced=True)).brokers
            for finding in await check_advertised(brokers, security, timeout_s):
                yield finding
            async for finding in check_health(admin, brokers, new_client):
                yield finding
            async for finding in check_permissions(admin.cluster, security, topics, groups):
                yield finding
        except OttlaError as error:
            yield Finding(
                check="cluster",
                subject="the cluster",
                status=Status.UNHEALTHY,
                said=str(error),
                next_step="check the logs of the brokers, and whether a majority of the controllers runs",
            )


def _show(finding: "Finding") -> None:
    sign, color = _SIGNS.get(finding.status.value, (finding.status.value, _BAD))
    mark = sign.ljust(_SIGN_WIDTH)
    click.echo(f"{click.style(mark, fg=color) if may_color() else mark} {finding.subject}: {finding.said}")
    if finding.next_step:
        click.echo(f"{'':{_SIGN_WIDTH}} -> {finding.next_step}")


def _row(finding: "Finding") -> dict[str, Any]:
    return {
        "check": finding.check,
        "subject": finding.subject,
        "verdict": finding.status.value,
        "said": finding.said,
        "nextStep": finding.next_step or None,
    }
