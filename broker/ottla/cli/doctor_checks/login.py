"""Does a listener want a login, which mechanisms has it, and does this client's login work?"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from ottla.cli.doctor_checks.finding import Finding, Verdict
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, LoginFailedError, NoTokenError
from ottla.client.security import ClientSecurity
from ottla.errors import ErrorCode, OttlaError
from ottla.sasl.client_login import Login
from ottla.sasl.registry import MECHANISMS
from ottla.types import Endpoint
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_MECHANISM = "OTTLA-DOCTOR"
"""Asked for where there is nothing to log in with: no listener has it, and the refusal names those that there are."""


async def check_login(endpoint: Endpoint, security: ClientSecurity, timeout_s: float) -> AsyncIterator[Finding]:
    """Yield what the listener offers and whether this client gets in; no failure where it does."""
    subject = str(endpoint)
    login = security.login
    try:
        offered = await _offered(endpoint, security, NO_MECHANISM if login is None else login.mechanism, timeout_s)
    except (ClientError, OSError, TimeoutError) as error:
        yield _unhealthy("mechanisms", subject, str(error), "look at the broker's log: it says why it hung up")
        return
    if offered is None:
        if login is None:
            yield Finding(
                check="mechanisms", subject=subject, verdict=Verdict.OK, said="that listener asks for no login"
            )
            return
        protocol = security.protocol.removeprefix("SASL_")
        said = f"that listener takes no logins, and this client wants to log in with {login.mechanism}"
        yield _unhealthy("mechanisms", subject, said, f"set security.protocol={protocol}, or dial another listener")
        return
    names = ", ".join(offered) or "none"
    if login is None:
        protocol = "SASL_SSL" if security.tls is not None else "SASL_PLAINTEXT"
        yield Finding(
            check="mechanisms",
            subject=subject,
            verdict=Verdict.DENIED,
            said=f"that listener wants a login with one of {names}, and this client has none",
            next_step=f"set security.protocol={protocol}, sasl.mechanism and sasl.jaas.config in --command-config",
        )
        return
    if login.mechanism not in offered:
        yield Finding(
            check="mechanisms",
            subject=subject,
            verdict=Verdict.DENIED,
            said=f"{login.mechanism} is not offered there; offered are {names}",
            next_step="set sasl.mechanism to one of these, or add it to the listener's sasl.enabled.mechanisms",
        )
        return
    yield Finding(check="mechanisms", subject=subject, verdict=Verdict.OK, said=f"offered are {names}")
    yield await _log_in(endpoint, security, timeout_s)


async def _log_in(endpoint: Endpoint, security: ClientSecurity, timeout_s: float) -> Finding:
    assert security.login is not None
    subject, who = str(endpoint), security.login.user or "the token's owner"
    try:
        connection = await Connection.open(endpoint, timeout_s=timeout_s, security=security)
    except LoginFailedError as error:
        next_step = _credential_step(security.login)
        if isinstance(error, NoTokenError):
            next_step = "check sasl.oauthbearer.token.endpoint.url and the client's id and secret in --command-config"
        return Finding(check="login", subject=subject, verdict=Verdict.DENIED, said=str(error), next_step=next_step)
    except OttlaError as error:
        return _unhealthy("login", subject, str(error), "look at the broker's log: it says why it hung up")
    await connection.close()
    said = f"logged in as {who} with {security.login.mechanism}"
    return Finding(check="login", subject=subject, verdict=Verdict.OK, said=said)


def _credential_step(login: Login) -> str:
    if not login.user:
        return "get a new token; the broker's log says what it has against this one"
    if MECHANISMS[login.mechanism].has_scram_users:
        return "check name and password in sasl.jaas.config; `ottla user list` shows who may log in with what"
    return "check name and password in sasl.jaas.config; those of PLAIN stand in the listener's own sasl.jaas.config"


async def _offered(
    endpoint: Endpoint, security: ClientSecurity, mechanism: str, timeout_s: float
) -> tuple[str, ...] | None:
    """Return the mechanisms of a listener; None where it has no SASL."""
    connection = await Connection.open(endpoint, timeout_s=timeout_s, security=replace(security, login=None))
    try:
        async with asyncio.timeout(timeout_s):
            answer = await connection.send(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    finally:
        await connection.close()
    return None if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE else tuple(answer.mechanisms)


def _unhealthy(check: str, subject: str, said: str, next_step: str) -> Finding:
    return Finding(check=check, subject=subject, verdict=Verdict.UNHEALTHY, said=said, next_step=next_step)
