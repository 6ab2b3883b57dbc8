"""Check the SASL mechanisms of a listener, and the authentication of this client."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, LoginFailedError, NoTokenError
from ottla.client.security import ClientSecurity
from ottla.errors import ErrorCode, OttlaError
from ottla.sasl.client_login import Login
from ottla.sasl.registry import MECHANISMS
from ottla.types import Endpoint
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_MECHANISM = "OTTLA-DOCTOR"
"""Requested by a client without credentials: no listener has it, and the error response lists the existing ones."""


async def check_login(endpoint: Endpoint, security: ClientSecurity, timeout_s: float) -> AsyncIterator[Finding]:
    """Yield the mechanisms of the listener and the result of the authentication; no failure if it succeeds."""
    subject = str(endpoint)
    login = security.login
    try:
        offered = await _offered(endpoint, security, NO_MECHANISM if login is None else login.mechanism, timeout_s)
    except (ClientError, OSError, TimeoutError) as error:
        yield _unhealthy("mechanisms", subject, str(error), "check the broker's log for the reason of the disconnect")
        return
    if offered is None:
        if login is None:
            yield Finding(check="mechanisms", subject=subject, status=Status.OK, said="that listener has no SASL")
            return
        protocol = security.protocol.removeprefix("SASL_")
        said = f"that listener has no SASL, and this client has credentials for {login.mechanism}"
        yield _unhealthy(
            "mechanisms", subject, said, f"set security.protocol={protocol}, or connect to another listener"
        )
        return
    names = ", ".join(offered) or "none"
    if login is None:
        protocol = "SASL_SSL" if security.tls is not None else "SASL_PLAINTEXT"
        yield Finding(
            check="mechanisms",
            subject=subject,
            status=Status.DENIED,
            said=f"that listener requires SASL with one of {names}, and this client has no credentials",
            next_step=f"set security.protocol={protocol}, sasl.mechanism and sasl.jaas.config in --command-config",
        )
        return
    if login.mechanism not in offered:
        yield Finding(
            check="mechanisms",
            subject=subject,
            status=Status.DENIED,
            said=f"{login.mechanism} is not enabled there; enabled are {names}",
            next_step="set sasl.mechanism to one of these, or add it to the listener's sasl.enabled.mechanisms",
        )
        return
    yield Finding(check="mechanisms", subject=subject, status=Status.OK, said=f"enabled are {names}")
    yield await _authenticate(endpoint, security, timeout_s)


async def _authenticate(endpoint: Endpoint, security: ClientSecurity, timeout_s: float) -> Finding:
    assert security.login is not None
    subject, who = str(endpoint), security.login.user or "the token's owner"
    try:
        connection = await Connection.open(endpoint, timeout_s=timeout_s, security=security)
    except LoginFailedError as error:
        next_step = _credential_step(security.login)
        if isinstance(error, NoTokenError):
            next_step = "check sasl.oauthbearer.token.endpoint.url and the client's id and secret in --command-config"
        return Finding(check="login", subject=subject, status=Status.DENIED, said=str(error), next_step=next_step)
    except OttlaError as error:
        return _unhealthy("login", subject, str(error), "check the broker's log for the reason of the disconnect")
    await connection.close()
    said = f"authenticated as {who} with {security.login.mechanism}"
    return Finding(check="login", subject=subject, status=Status.OK, said=said)


def _credential_step(login: Login) -> str:
    if not login.user:
        return "get a new token; the broker's log has the reason of the rejection"
    if MECHANISMS[login.mechanism].has_scram_users:
        return "check name and password in sasl.jaas.config; `ottla user list` shows users and their mechanisms"
    return "check name and password in sasl.jaas.config; those of PLAIN are in the listener's own sasl.jaas.config"


async def _offered(
    endpoint: Endpoint, security: ClientSecurity, mechanism: str, timeout_s: float
) -> tuple[str, ...] | None:
    """Return the mechanisms of a listener; None if it has no SASL."""
    connection = await Connection.open(endpoint, timeout_s=timeout_s, security=replace(security, login=None))
    try:
        async with asyncio.timeout(timeout_s):
            response = await connection.send(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    finally:
        await connection.close()
    return None if response.error_code == ErrorCode.ILLEGAL_SASL_STATE else tuple(response.mechanisms)


def _unhealthy(check: str, subject: str, said: str, next_step: str) -> Finding:
    return Finding(check=check, subject=subject, status=Status.UNHEALTHY, said=said, next_step=next_step)
