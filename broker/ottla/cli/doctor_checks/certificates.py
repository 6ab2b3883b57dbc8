"""TLS with a broker: its version, the certificate's names and dates, and whether this client trusts it."""

import asyncio
import dataclasses
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.client.security import ClientSecurity
from ottla.client.tls_failures import tls_problem
from ottla.types import Endpoint

if TYPE_CHECKING:
    from cryptography import x509

SOON: Final = timedelta(days=30)
CLOSED_AT_ONCE_S: Final = 0.3
"""How long to read after the handshake: under TLS 1.3 the rejection of a client certificate arrives after it."""


async def check_certificate(endpoint: Endpoint, security: ClientSecurity, timeout_s: float) -> AsyncIterator[Finding]:
    """Yield the findings of the broker's certificate and its verification; no failure if both sides accept."""
    subject = str(endpoint)
    shown = await _get_certificate(endpoint, security, timeout_s)
    if shown is not None:
        version, certificate = shown
        yield Finding(check="tls", subject=subject, status=Status.OK, said=version)
        yield _describe(subject, certificate)
    try:
        async with asyncio.timeout(timeout_s):
            context = security.tls_context()
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host
            )
            try:
                await _await_rejection(reader)
            finally:
                writer.transport.abort()
    except TimeoutError:
        yield Finding(
            check="trust",
            subject=subject,
            status=Status.UNHEALTHY,
            said=f"the TLS handshake was not over within {timeout_s:g} s",
            next_step="check the broker's log: it may be overloaded, or its listener may not speak TLS",
        )
    except OSError as error:
        problem = tls_problem(endpoint, error, has_certificate=security.has_certificate)
        yield Finding(
            check="trust",
            subject=subject,
            status=Status.UNHEALTHY,
            said=problem.what,
            next_step=problem.next_step or "check the broker's log, which has the rest of the reason",
        )
    else:
        yield Finding(check="trust", subject=subject, status=Status.OK, said="certificate and name are trusted")


async def _await_rejection(reader: asyncio.StreamReader) -> None:
    """Raise the broker's rejection of this client's certificate, if it arrives soon."""
    try:
        async with asyncio.timeout(CLOSED_AT_ONCE_S):
            await reader.read(1)
    except TimeoutError:
        return


async def _get_certificate(
    endpoint: Endpoint, security: ClientSecurity, timeout_s: float
) -> "tuple[str, x509.Certificate] | None":
    """Return version with cipher, and the certificate, unverified; None without a handshake."""
    from cryptography import x509

    from ottla.tls.contexts import make_contexts

    assert security.tls is not None, "only called with TLS"
    context = make_contexts(dataclasses.replace(security.tls, verifies_host=False), opened=False).client
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host
            )
    except (OSError, TimeoutError):
        return None
    secured = writer.get_extra_info("ssl_object")
    name, _, _ = secured.cipher()
    certificate = x509.load_der_x509_certificate(secured.getpeercert(binary_form=True))
    writer.transport.abort()
    return f"{secured.version()} with {name}", certificate


def _describe(subject: str, certificate: "x509.Certificate") -> Finding:
    ends, begins, now = certificate.not_valid_after_utc, certificate.not_valid_before_utc, datetime.now(UTC)
    said = (
        f"{certificate.subject.rfc4514_string() or 'no subject'}, for {', '.join(_names(certificate)) or 'no name'}, "
        f"signed by {certificate.issuer.rfc4514_string()}, valid {begins:%Y-%m-%d} to {ends:%Y-%m-%d %H:%M} UTC"
    )
    if now >= ends:
        status, next_step = Status.UNHEALTHY, "it has expired: replace it on the broker"
    elif now < begins:
        status, next_step = Status.UNHEALTHY, "it is not valid yet: check the clocks of both hosts"
    elif ends - now < SOON:
        status, next_step = Status.WARNING, f"it ends in {(ends - now).days} days: replace it"
    else:
        status, next_step = Status.OK, ""
    return Finding(check="certificate", subject=subject, status=status, said=said, next_step=next_step)


def _names(certificate: "x509.Certificate") -> list[str]:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found]
