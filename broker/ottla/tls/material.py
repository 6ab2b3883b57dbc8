"""Keys and certificates from PEM or PKCS #12, loaded and checked; each possible error is one line for the operator.

Source: DefaultSslEngineFactory (Kafka 4.3) for what a store may hold; RFC 7468 (PEM), RFC 7292 (PKCS #12).
"""

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12KeyAndCertificates,
    load_pkcs12,
)

from ottla.config.tls_settings import Store, TlsSettings
from ottla.errors import ConfigurationError

T = TypeVar("T")

_JKS: Final = (bytes.fromhex("feedfeed"), bytes.fromhex("cececece"))
_DER_SEQUENCE: Final = b"\x30"
_PEM: Final = b"-----BEGIN "
# The body may be split anywhere, also by blanks: a PEM value of a properties file has no line breaks.
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE: Final = 64
_FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, repr=False)
class KeyMaterial:
    """A private key and its certificate chain. Its repr never shows the key."""

    key_pem: bytes
    chain: tuple[x509.Certificate, ...]
    """The key's own certificate is the first."""

    @property
    def chain_pem(self) -> bytes:
        return pem_of(self.chain)

    @property
    def expires_at_ms(self) -> int:
        """Unix time at which the first of the certificates to expire does so."""
        return min(int(it.not_valid_after_utc.timestamp() * 1000) for it in self.chain)

    @property
    def subject(self) -> x509.Name:
        return self.chain[0].subject

    @property
    def alternative_names(self) -> frozenset[str]:
        """The names and addresses in the certificate's subjectAltName."""
        return _alternative_names(self.chain[0])


def pem_of(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return the certificates concatenated in PEM."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def load_key_material(settings: TlsSettings) -> KeyMaterial | None:
    """Return this node's key and certificates; None where none are configured.

    Raises:
        ConfigurationError: a file is missing or not a store, a password is wrong, key and certificate do not match.
    """
    store = settings.key_store
    if store is None:
        return None
    if store.type == "PEM":
        return _read_pem_key(store, settings)
    found = _read_pkcs12(store, settings.place)
    if found.key is None or found.cert is None:
        raise _wrong(store, settings.place, "has no private key with its certificate")
    others = [it.certificate for it in found.additional_certs]
    return _checked(store, settings.place, found.key, [found.cert.certificate, *others])


def load_trusted(settings: TlsSettings) -> tuple[x509.Certificate, ...] | None:
    """Return the trusted certificates; None for the system's default trust store.

    Raises:
        ConfigurationError: as `load_key_material`; or there is no certificate in the store.
    """
    store = settings.trust_store
    if store is None:
        return None
    if store.type == "PEM":
        text = store.certificates or _read_text(store, settings.place)
        certificates = _read_certificates(store, settings.place, text)
    else:
        found = _read_pkcs12(store, settings.place)
        certificates = [it.certificate for it in (found.cert, *found.additional_certs) if it is not None]
    if not certificates:
        raise _wrong(store, settings.place, "has no certificate in it")
    return tuple(certificates)


def _wrong(store: Store, place: str, what: str) -> ConfigurationError:
    key = f"{store.what}.location={store.location}" if store.location else _inline_key(store)
    return ConfigurationError(f"{place}: {key} {what}")


def _inline_key(store: Store) -> str:
    return "ssl.keystore.key" if store.key is not None else f"{store.what}.certificates"


def _read_file(store: Store, place: str) -> bytes:
    assert store.location is not None
    try:
        with open(store.location, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _wrong(store, place, "is no regular file")
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _wrong(store, place, f"cannot be read: {error.strerror or error}") from error
    if len(data) > _FILE_BYTES_MAX:
        raise _wrong(
            store,
            place,
            f"is larger than {_FILE_BYTES_MAX} bytes: keep only the needed certificates",
        )
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open as `open` does, but never block on a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_text(store: Store, place: str) -> str:
    data = _read_file(store, place)
    if data.startswith(_JKS):
        raise _wrong(store, place, _how_to_convert(store))
    if _PEM not in data:
        raise _wrong(store, place, f"is not PEM: it has no BEGIN line; see {store.what}.type")
    return data.decode("ascii", errors="replace")


# --- PEM ----------------------------------------------------------------------------------------------------------


def _read_pem_key(store: Store, settings: TlsSettings) -> KeyMaterial:
    if store.key is not None:
        key_text, chain_text = store.key, store.certificates or ""
    else:
        key_text = chain_text = _read_text(store, settings.place)
    keys = [(label, pem) for label, pem in _blocks(key_text) if label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise _wrong(store, settings.place, f"has {len(keys)} private keys in it; one is needed")
    certificates = _read_certificates(store, settings.place, chain_text)
    if not certificates:
        raise _wrong(store, settings.place, "has no certificate in it")
    password = settings.key_password
    label, pem = keys[0]
    is_encrypted = label.startswith("ENCRYPTED") or b"Proc-Type" in pem
    if is_encrypted and password is None:
        raise _wrong(store, settings.place, "has an encrypted private key: set ssl.key.password")

    def load() -> PrivateKeyTypes:
        return load_pem_private_key(pem, password.encode() if is_encrypted and password else None)

    what = "has a private key that ssl.key.password does not open" if is_encrypted else "has no usable private key"
    return _checked(store, settings.place, _try(load, store, settings.place, what), certificates)


def _read_certificates(store: Store, place: str, text: str) -> list[x509.Certificate]:
    blocks = [pem for label, pem in _blocks(text) if label == "CERTIFICATE"]
    return [
        _try(lambda pem=pem: x509.load_pem_x509_certificate(pem), store, place, "has a broken certificate")  # type: ignore[misc]
        for pem in blocks
    ]


def _blocks(text: str) -> list[tuple[str, bytes]]:
    """Return label and PEM of every block, with the line breaks that PEM requires."""
    blocks = []
    for match in _BLOCK.finditer(text):
        label, body = match[1], match[2]
        if ":" not in body:
            # Headers of traditional encrypted keys (Proc-Type) are left alone: their line breaks are significant.
            joined = "".join(body.split())
            body = "\n" + "\n".join(joined[at : at + _LINE] for at in range(0, len(joined), _LINE)) + "\n"
        blocks.append((label, f"-----BEGIN {label}-----{body}-----END {label}-----\n".encode()))
    return blocks


# --- PKCS #12 -----------------------------------------------------------------------------------------------------


def _require_pkcs12(store: Store, data: bytes, place: str) -> None:
    """Reject anything but PKCS #12, which Java also accepts under the type JKS."""
    if data.startswith(_JKS):
        raise _wrong(store, place, _how_to_convert(store))
    if _PEM in data[:4096]:
        raise _wrong(store, place, f"is PEM: set {store.what}.type=PEM (it is {store.type})")
    if not data.startswith(_DER_SEQUENCE):
        raise _wrong(store, place, "is neither PKCS12 nor PEM")


def _how_to_convert(store: Store) -> str:
    return (
        "is a JKS store, which only Java can read. Convert it: keytool -importkeystore "
        f"-srckeystore {store.location} -destkeystore {store.what.removeprefix('ssl.')}.p12 -deststoretype PKCS12, and "
        f"set {store.what}.type=PKCS12"
    )


def _read_pkcs12(store: Store, place: str) -> PKCS12KeyAndCertificates:
    data = _read_file(store, place)
    _require_pkcs12(store, data, place)
    password = None if store.password is None else store.password.encode()
    return _try(
        lambda: load_pkcs12(data, password),
        store,
        place,
        f"is not opened by {store.what}.password" if password else f"needs {store.what}.password",
    )


# --- both ---------------------------------------------------------------------------------------------------------


def _try(action: Callable[[], T], store: Store, place: str, what: str) -> T:
    try:
        return action()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _wrong(store, place, what) from error


def _checked(store: Store, place: str, key: PrivateKeyTypes, certificates: list[x509.Certificate]) -> KeyMaterial:
    """Put the key's own certificate first; reject a store without one."""
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def is_own(certificate: x509.Certificate) -> bool:
        return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == public

    own = [it for it in certificates if is_own(it)]
    if not own:
        raise _wrong(store, place, "has a private key and a certificate that do not belong together")
    chain = _in_order(own[0], [it for it in certificates if it is not own[0]])
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyMaterial(pem, tuple(chain))


def _in_order(first: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the chain, each certificate followed by its issuer; certificates that issued none of it are left out."""
    chain, left = [first], list(others)
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((it for it in left if it.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return chain


def _alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(name).__name__}:{name.value}" for name in names)


def stamp_of(settings: TlsSettings) -> tuple[tuple[int, int, int] | None, ...]:
    """Return a stamp that changes with any of the files: inode, size and modification time; None for a missing file."""
    stamps: list[tuple[int, int, int] | None] = []
    for store in (settings.key_store, settings.trust_store):
        if store is None or store.location is None:
            continue
        try:
            found = os.stat(store.location)
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return tuple(stamps)
