"""Keys and certificates: authorities and leaves that the operator issues, and validation of certificates from users.

Keys are ECDSA P-256. Import this module only where there is TLS: the library below takes its time to load.
Source: RFC 5280 (extensions of authorities and of leaf certificates).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final
from warnings import catch_warnings

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ottla_operator.model.conditions import Rejected

CLOCK_SKEW: Final = timedelta(hours=1)
"""How long before its creation a certificate becomes valid: clocks differ."""
_SIGNING_KEYS: Final = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UserWarning,
)
"""Errors of the library for bytes that are no certificate; some are raised only when the part in question is read."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SigningAuthority:
    """A root that signs certificates. It never prints itself."""

    certificate: str
    """PEM, of a root."""
    key: str | None
    """PEM, PKCS #8; None if it is lost, and nothing can be signed any more."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Leaf:
    """A certificate that signs no other, and its key. It never prints itself."""

    certificate: str
    key: str

    @property
    def pem(self) -> str:
        """Key and certificate in one PEM file, as nodes read it."""
        return self.key + self.certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """Subject and names of a certificate to issue."""

    common_name: str
    names: frozenset[str] = frozenset()
    """Host names and IP addresses; empty for a client's certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """The fields of a certificate that planning needs."""

    subject: str
    """RFC 4514."""
    names: frozenset[str]
    not_before: datetime
    not_after: datetime
    fingerprint: str
    """SHA-256 of the certificate in DER, lower-case hexadecimal."""


class CertificateIssuer:
    """Creates keys and signs certificates; the only place with randomness."""

    def authority(self, organization: str, what: str, *, now: datetime, days: int) -> SigningAuthority:
        """Return a new root; its name is unique, because clients choose trusted certificates by name."""
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        name = _name(f"{what} {identifier.digest.hex()[:12]}", organization)
        certificate = (
            _builder(name, name, key, now, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, SHA256())
        )
        return SigningAuthority(certificate=_pem(certificate), key=_key_pem(key))

    def leaf(self, authority: SigningAuthority, request: LeafRequest, *, now: datetime, days: int) -> Leaf:
        """Return a new key with a certificate by ``authority``, which never outlives that."""
        assert authority.key is not None, "an authority signs with its key"
        issuer, issuer_key = _one(authority.certificate), load_pem_private_key(authority.key.encode(), None)
        assert isinstance(issuer_key, _SIGNING_KEYS), "authorities are checked before"
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(now + timedelta(days=days), issuer.not_valid_after_utc)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
        builder = (
            _builder(_name(request.common_name), issuer.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_purposes(request)), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_issuer_identifier(issuer) or identifier, critical=False)
        )
        if request.names:
            names = [_alternative_name(name) for name in sorted(request.names)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Leaf(certificate=_pem(builder.sign(issuer_key, SHA256())), key=_key_pem(key))


def facts(pem: str) -> CertificateFacts:
    """Return the facts of the first certificate of ``pem``.

    Raises:
        ValueError: there is none, or it cannot be read.
    """
    return _facts(_one(pem))


def _facts(certificate: x509.Certificate) -> CertificateFacts:
    try:
        return CertificateFacts(
            subject=certificate.subject.rfc4514_string(),
            names=_alternative_names(certificate),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            fingerprint=certificate.fingerprint(SHA256()).hex(),
        )
    except _UNREADABLE as error:
        raise ValueError("the certificate cannot be read") from error


def subject_of(request: LeafRequest) -> str:
    """Return the subject of a certificate issued for ``request``, in the form of `facts`."""
    return _name(request.common_name).rfc4514_string()


def certificates(pem: str) -> tuple[str, ...]:
    """Return the readable certificates of ``pem``, each in one normal form."""
    try:
        found = _load(pem)
    except _UNREADABLE:
        return ()
    return tuple(_pem(it) for it in found if _is_readable(it))


def _is_readable(certificate: x509.Certificate) -> bool:
    try:
        _facts(certificate)
    except ValueError:
        return False
    return True


def is_issued_by(pem: str, authority: str) -> bool:
    """Tell whether the first certificate of ``pem`` is signed by the key of ``authority``'s first one."""
    try:
        _one(pem).verify_directly_issued_by(_one(authority))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def have_one_key(pem: str, other: str) -> bool:
    """Tell whether the first certificates of two PEM strings, both readable, are for the same key."""
    try:
        return _public_bytes(_one(pem).public_key()) == _public_bytes(_one(other).public_key())
    except _UNREADABLE:
        return False


def leaf_of(pem: str | None) -> Leaf | None:
    """Return key and certificate of one PEM string; None unless both are there and match."""
    key_end = "-----END PRIVATE KEY-----\n"
    key, _, certificate = (pem or "").partition(key_end)
    return leaf_of_parts(certificate, key + key_end)


def leaf_of_parts(certificate: str | None, key: str | None) -> Leaf | None:
    """Return key and certificate; None unless both are there and match."""
    if certificate is None or key is None or not _belong_together(certificate, key):
        return None
    return Leaf(certificate=certificate, key=key)


def generated_authority(certificate: str | None, key: str | None) -> SigningAuthority | None:
    """Return the authority in the operator's own Secret; without its key if that is corrupt, None without both."""
    found = certificates(certificate or "")
    if not found:
        return None
    return SigningAuthority(
        certificate=found[0], key=key if key is not None and _belong_together(found[0], key) else None
    )


def user_provided_authority(
    certificate: str | None, key: str | None, where: str, *, now: datetime
) -> SigningAuthority | Rejected:
    """Return the authority that a user keeps in ``where`` (``Secret mine``), or why it cannot sign."""
    if certificate is None or key is None:
        return _unusable(where, f"has no entry {'ca.crt' if certificate is None else 'ca.key'}")
    found = certificates(certificate)
    if len(found) != 1:
        return _unusable(where, f"has {len(found)} certificates in ca.crt; it is to be exactly one, of a root")
    parsed = _one(found[0])
    if (trouble := _key_trouble(key, parsed)) is not None:
        return _unusable(where, f"has a ca.key that {trouble}")
    if (trouble := _root_trouble(parsed, now)) is not None:
        return _unusable(where, f"has a ca.crt that {trouble}")
    loaded = load_pem_private_key(key.encode(), None)
    if not isinstance(loaded, _SIGNING_KEYS):
        return _unusable(where, "has a ca.key that is neither ECDSA nor RSA")
    return SigningAuthority(certificate=found[0], key=_key_pem(loaded))


def user_provided_leaf(certificate: str | None, key: str | None, where: str, *, now: datetime) -> Leaf | Rejected:
    """Return key and chain that a user, or cert-manager, keeps in ``where``, or why a listener cannot present them."""
    if certificate is None or key is None:
        return _unusable(where, f"has no entry {'tls.crt' if certificate is None else 'tls.key'}")
    chain = certificates(certificate)
    if not chain:
        return _unusable(where, "has no certificate in tls.crt")
    parsed = _one(chain[0])
    if (trouble := _key_trouble(key, parsed)) is not None:
        return _unusable(where, f"has a tls.key that {trouble}")
    if parsed.not_valid_after_utc <= now:
        return _unusable(where, f"has a certificate that ended on {parsed.not_valid_after_utc:%Y-%m-%d}")
    return Leaf(certificate="".join(chain), key=_key_pem(load_pem_private_key(key.encode(), None)))


def _unusable(where: str, what: str) -> Rejected:
    return Rejected("CertificateUnusable", f"{where} {what}; put a usable one there, or name another")


def _key_trouble(key: str, certificate: x509.Certificate) -> str | None:
    """Return what is wrong with a private key, as the end of a sentence."""
    try:
        found = load_pem_private_key(key.encode(errors="replace"), None)
    except TypeError:
        return "is encrypted; store it without a password (openssl pkey -in ... -out ...)"
    except (ValueError, UnsupportedAlgorithm):
        return "is no private key in PEM"
    try:
        return None if _has_public_key(found, certificate) else "does not belong to its certificate"
    except _UNREADABLE:
        return "belongs to a certificate whose own key cannot be read"


def _root_trouble(certificate: x509.Certificate, now: datetime) -> str | None:
    """Return why ``certificate`` may not be the root of a cluster, as the end of a sentence."""
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        is_authority = False
    if not is_authority:
        return "is no authority's: basicConstraints does not say CA:TRUE"
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        usage = None
    if usage is not None and not usage.key_cert_sign:
        return "may sign no certificates: keyUsage has no keyCertSign"
    if not is_issued_by(_pem(certificate), _pem(certificate)):
        # With a shared root, any of its other certificates would authenticate as a node.
        return "is signed by another authority; a cluster needs a root of its own"
    if certificate.not_valid_after_utc <= now:
        return f"ended on {certificate.not_valid_after_utc:%Y-%m-%d}"
    return None


def _belong_together(certificate: str, key: str) -> bool:
    try:
        parsed = _one(certificate)
    except ValueError:
        return False
    return _is_readable(parsed) and _key_trouble(key, parsed) is None


def _has_public_key(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    return _public_bytes(key.public_key()) == _public_bytes(certificate.public_key())


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _purposes(request: LeafRequest) -> list[x509.ObjectIdentifier]:
    servers = [ExtendedKeyUsageOID.SERVER_AUTH] if request.names else []
    return [*servers, ExtendedKeyUsageOID.CLIENT_AUTH]


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier | None:
    """Return the key identifier of ``issuer`` from its own extension; authorities compute it in different ways."""
    try:
        found = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return None
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset([*names.get_values_for_type(x509.DNSName), *map(str, addresses)])


def _load(pem: str) -> list[x509.Certificate]:
    """Raises one of `_UNREADABLE`, also for defects of which the library only warns, such as serial number 0."""
    with catch_warnings(action="error", category=UserWarning):
        certificates = x509.load_pem_x509_certificates(pem.encode(errors="replace"))
        # The library parses names only when they are read.
        assert all(it.subject is not None and it.issuer is not None for it in certificates)
        return certificates


def _one(pem: str) -> x509.Certificate:
    """Raises ValueError."""
    try:
        return _load(pem)[0]
    except (x509.InvalidVersion, TypeError, UserWarning) as error:
        raise ValueError(str(error)) from error


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
