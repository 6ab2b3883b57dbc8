"""TLS with a broker: its version, the certificate's names and dates, and whether this client trusts it."""

import asyncio
import dataclasses
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ottla.cli.doctor_checks.finding import Finding, Verdict
from ottla.client.security import ClientSecurity
from ottla.client.tls_failures import tls_problem
from ottla.types import Endpoint

if TYPE_CHECKING:
    from cryptography import x509

SOON: Final = timedelta(days=30)
CLOSED_AT_ONCE_S: Final = 0.3
"""How long to listen after the handshake: under TLS 1.3 a refused client certificate is told after it."""


async def check_certificate(endpoint: Endpoint, security: ClientSecurity, timeout_s: float) -> AsyncIterator[Finding]:
    """Yield what the broker shows, and what this client makes of it; no failure where both agree."""
    subject = str(endpoint)
    shown = await _look(endpoint, security, timeout_s)
    if shown is not None:
        version, certificate = shown
        yield Finding(check="tls", subject=subject, verdict=Verdict.OK, said=version)
        yield _describe(subject, certificate)
    try:
        async with asyncio.timeout(timeout_s):
            context = security.tls_context()
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host
            )
            try:
                await _listen(reader)
            finally:
                writer.transport.abort()
    except TimeoutError:
        yield Finding(
            check="trust",
            subject=subject,
            verdict=Verdict.UNHEALTHY,
            said=f"the TLS handshake was not over within {timeout_s:g} s",
            next_step="look at the broker's log: it may be overloaded, or its listener may not speak TLS",
        )
    except OSError as error:
        problem = tls_problem(endpoint, error, has_certificate=security.has_certificate)
        yield Finding(
            check="trust",
            subject=subject,
            verdict=Verdict.UNHEALTHY,
            said=problem.what,
            next_step=problem.next_step or "look at the broker's log, which names the other half of the reason",
        )
    else:
        yield Finding(check="trust", subject=subject, verdict=Verdict.OK, said="certificate and name are trusted")


async def _listen(reader: asyncio.StreamReader) -> None:
    """Raise what the broker has against this client's certificate, should it say so soon."""
    try:
        async with asyncio.timeout(CLOSED_AT_ONCE_S):
            await reader.read(1)
    except TimeoutError:
        return


async def _look(
    endpoint: Endpoint, security: ClientSecurity, timeout_s: float
) -> "tuple[str, x509.Certificate] | None":
    """Return version with cipher, and the certificate, whoever signed it; None where there is no handshake."""
    from cryptography import x509

    from ottla.tls.contexts import make_contexts

    assert security.tls is not None, "only asked where there is TLS"
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
        verdict, next_step = Verdict.UNHEALTHY, "it has expired: put a new one in its place on the broker"
    elif now < begins:
        verdict, next_step = Verdict.UNHEALTHY, "it is not valid yet: see whether the clocks here and there are right"
    elif ends - now < SOON:
        verdict, next_step = Verdict.WARNING, f"it ends in {(ends - now).days} days: put a new one in its place"
    else:
        verdict, next_step = Verdict.OK, ""
    return Finding(check="certificate", subject=subject, verdict=verdict, said=said, next_step=next_step)


def _names(certificate: "x509.Certificate") -> list[str]:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found]
