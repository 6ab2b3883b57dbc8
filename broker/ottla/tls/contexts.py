"""SSL contexts of listeners and clients, built from settings and key material.

Source: SslFactory and DefaultSslEngineFactory of Apache Kafka 4.3.
"""

import os
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from ottla.config.tls_settings import TlsSettings
from ottla.errors import ConfigurationError
from ottla.tls.ciphers import openssl_cipher_list
from ottla.tls.errors import explain
from ottla.tls.material import KeyMaterial, load_key_material, load_trusted, pem_of, stamp_of

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, repr=False)
class Contexts:
    """The SSL contexts of one listener or client, with the settings and the key material that they were built from."""

    settings: TlsSettings
    stamp: tuple[tuple[int, int, int] | None, ...]
    material: KeyMaterial | None
    server: ssl.SSLContext | None
    client: ssl.SSLContext


def make_contexts(settings: TlsSettings, *, opened: bool) -> Contexts:
    """Read the files that ``settings`` name and build the SSL contexts.

    ``opened`` is False for a listener that this node only connects to, and for a client.

    Raises:
        ConfigurationError: see `load_key_material` and `load_trusted`; or OpenSSL cannot use the key or the ciphers.
    """
    stamp = stamp_of(settings)
    material, trusted = load_key_material(settings), load_trusted(settings)
    client = _new_context(ssl.PROTOCOL_TLS_CLIENT, settings, material, trusted)
    client.check_hostname = settings.verifies_host
    server = None
    if opened:
        server = _new_context(ssl.PROTOCOL_TLS_SERVER, settings, material, trusted)
        server.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return Contexts(settings, stamp, material, server, client)


def _new_context(
    side: int, settings: TlsSettings, material: KeyMaterial | None, trusted: Iterable[x509.Certificate] | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    versions = [_VERSIONS[version] for version in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A client that may request new handshakes on an open connection could cost the node unbounded CPU time.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # As Java: every certificate in the trust store is trusted, even if its issuer is not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.cipher_suites:
        _choose_ciphers(context, settings)
    if material is not None:
        _load_key(context, settings, material)
    if trusted is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=pem_of(trusted).decode())
    return context


def _choose_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> None:
    ciphers, has_tls13 = openssl_cipher_list(settings.cipher_suites, settings.place)
    if not ciphers:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    elif not has_tls13:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if context.minimum_version > context.maximum_version:
        raise ConfigurationError(
            f"{settings.place}: ssl.cipher.suites has none for ssl.enabled.protocols={','.join(settings.versions)}"
        )
    if ciphers:
        try:
            context.set_ciphers(":".join(ciphers))
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"{settings.place}: ssl.cipher.suites={','.join(settings.cipher_suites)} has no cipher "
                "that OpenSSL knows"
            ) from error


def _load_key(context: ssl.SSLContext, settings: TlsSettings, material: KeyMaterial) -> None:
    """Load the key into OpenSSL, which reads files only, from an in-memory file that no other process can name."""
    with _file_in_memory(material.chain_pem + material.key_pem) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"{settings.place}: OpenSSL rejects the certificate or its key: {explain(error)}"
            ) from error


@contextmanager
def _file_in_memory(data: bytes) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
