"""Authorities and certificates: generated ones work with TLS, and unusable ones are rejected with a reason."""

import hashlib
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla_operator.model import certificates
from ottla_operator.model.certificates import CertificateIssuer, Leaf, LeafRequest, SigningAuthority
from ottla_operator.model.conditions import Rejected

NOW = datetime.now(UTC).replace(microsecond=0)
ISSUER = CertificateIssuer()
ROOT = ISSUER.authority("demo", "cluster CA", now=NOW, days=100)
NODE = ISSUER.leaf(ROOT, LeafRequest(common_name="node", names=frozenset({"a.b", "127.0.0.1"})), now=NOW, days=10)
USER = ISSUER.leaf(ROOT, LeafRequest(common_name="alice"), now=NOW, days=1000)
KEY = ROOT.key or ""


def test_authority_may_sign_leafs_and_no_other_authority() -> None:
    certificate = x509.load_pem_x509_certificate(ROOT.certificate.encode())
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)

    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)


def test_two_authorities_have_two_names() -> None:
    other = ISSUER.authority("demo", "cluster CA", now=NOW, days=100)

    assert certificates.facts(other.certificate).subject != certificates.facts(ROOT.certificate).subject


def test_facts_are_those_of_the_request() -> None:
    said = certificates.facts(NODE.certificate)

    assert said.subject == certificates.subject_of(LeafRequest(common_name="node")) == "CN=node"
    assert said.names == {"a.b", "127.0.0.1"}
    assert (said.not_before, said.not_after) == (NOW - certificates.CLOCK_SKEW, NOW + timedelta(days=10))
    der = ssl.PEM_cert_to_DER_cert(NODE.certificate)
    assert said.fingerprint == hashlib.sha256(der).hexdigest()


def test_certificate_never_outlives_its_authority() -> None:
    assert certificates.facts(USER.certificate).not_after == certificates.facts(ROOT.certificate).not_after


def test_issuer_is_identified_by_the_signature() -> None:
    other = ISSUER.authority("demo", "cluster CA", now=NOW, days=100)

    assert certificates.is_issued_by(NODE.certificate, ROOT.certificate)
    assert not certificates.is_issued_by(NODE.certificate, other.certificate)
    assert not certificates.is_issued_by("nothing", ROOT.certificate)


@pytest.mark.parametrize("client", [NODE, USER], ids=["node", "user"])
def test_openssl_shakes_hands_with_both_sides_verified(tmp_path: Path, client: Leaf) -> None:
    def context(side: int, leaf: Leaf) -> ssl.SSLContext:
        made = ssl.SSLContext(side)
        file = tmp_path / "leaf.pem"
        file.write_text(leaf.pem)
        made.load_cert_chain(file)
        made.load_verify_locations(cadata=ROOT.certificate)
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context(ssl.PROTOCOL_TLS_SERVER, NODE).wrap_bio(to_server, to_client, server_side=True)
    outgoing = context(ssl.PROTOCOL_TLS_CLIENT, client)
    near = outgoing.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(3):
        for side in (near, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()

    assert certificates.facts(ssl.DER_cert_to_PEM_cert(near.getpeercert(True) or b"")).subject == "CN=node"
    shown = ssl.DER_cert_to_PEM_cert(server.getpeercert(True) or b"")
    assert shown.split() == client.certificate.split()


def test_key_and_certificate_are_found_in_one_text() -> None:
    assert certificates.leaf_of(NODE.pem) == NODE
    assert certificates.leaf_of(NODE.key + USER.certificate) is None, "they do not belong together"
    assert certificates.leaf_of(None) is None
    assert certificates.leaf_of("nothing") is None


def test_corrupt_authority_keeps_its_certificate() -> None:
    assert certificates.generated_authority(ROOT.certificate, ROOT.key) == ROOT
    assert certificates.generated_authority(ROOT.certificate, USER.key) == SigningAuthority(
        certificate=ROOT.certificate, key=None
    )
    assert certificates.generated_authority("nothing", ROOT.key) is None


def test_nothing_prints_a_key() -> None:
    assert "BEGIN" not in repr((ROOT, NODE))


def encrypted(key: str) -> str:
    loaded = load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")).decode()


def edwards_root() -> tuple[str, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - timedelta(1), NOW + timedelta(1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return certificate.public_bytes(Encoding.PEM).decode(), pem


def test_own_authority_is_accepted() -> None:
    assert certificates.user_provided_authority(ROOT.certificate, KEY, "Secret mine", now=NOW) == ROOT


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        pytest.param(None, KEY, "has no entry ca.crt", id="no-certificate"),
        pytest.param(ROOT.certificate, None, "has no entry ca.key", id="no-key"),
        pytest.param("nothing", KEY, "has 0 certificates in ca.crt", id="not-pem"),
        pytest.param(ROOT.certificate * 2, KEY, "has 2 certificates in ca.crt", id="two"),
        pytest.param(ROOT.certificate, "nothing", "ca.key that is no private key in PEM", id="key-not-pem"),
        pytest.param(ROOT.certificate, encrypted(KEY), "ca.key that is encrypted", id="encrypted"),
        pytest.param(ROOT.certificate, USER.key, "does not belong to its certificate", id="another-key"),
        pytest.param(USER.certificate, USER.key, "is no authority's", id="no-authority"),
        pytest.param(*edwards_root(), "neither ECDSA nor RSA", id="another-algorithm"),
    ],
)
def test_unusable_authority_is_rejected(certificate: str | None, key: str | None, words: str) -> None:
    found = certificates.user_provided_authority(certificate, key, "Secret mine", now=NOW)

    assert isinstance(found, Rejected)
    assert found.message.startswith("Secret mine ")
    assert words in found.message
    assert "BEGIN" not in found.message


def test_expired_authority_is_rejected() -> None:
    found = certificates.user_provided_authority(ROOT.certificate, KEY, "Secret mine", now=NOW + timedelta(days=100))

    assert isinstance(found, Rejected)
    assert "has a ca.crt that ended on" in found.message


def test_authority_that_is_not_a_root_is_rejected() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    parent = x509.load_pem_x509_certificate(ROOT.certificate.encode())
    parent_key = load_pem_private_key(KEY.encode(), None)
    assert isinstance(parent_key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "intermediate")])
    made = (
        x509.CertificateBuilder(parent.subject, name, key.public_key(), 1, NOW - timedelta(1), NOW + timedelta(1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(parent_key, certificates.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    found = certificates.user_provided_authority(made.public_bytes(Encoding.PEM).decode(), pem, "Secret mine", now=NOW)

    assert isinstance(found, Rejected)
    assert "is signed by another authority; a cluster needs a root of its own" in found.message


def test_own_certificate_is_accepted_with_its_chain() -> None:
    found = certificates.user_provided_leaf(NODE.certificate + ROOT.certificate, NODE.key, "Secret mine", now=NOW)

    assert isinstance(found, Leaf)
    assert found.certificate == NODE.certificate + ROOT.certificate


@pytest.mark.parametrize(
    ("certificate", "key", "days", "words"),
    [
        pytest.param(None, NODE.key, 0, "has no entry tls.crt", id="no-certificate"),
        pytest.param(NODE.certificate, None, 0, "has no entry tls.key", id="no-key"),
        pytest.param("nothing", NODE.key, 0, "has no certificate in tls.crt", id="not-pem"),
        pytest.param(NODE.certificate, USER.key, 0, "does not belong to its certificate", id="another-key"),
        pytest.param(NODE.certificate, NODE.key, 11, "has a certificate that ended on", id="ended"),
    ],
)
def test_unusable_certificate_is_rejected(certificate: str | None, key: str | None, days: int, words: str) -> None:
    found = certificates.user_provided_leaf(certificate, key, "Secret mine", now=NOW + timedelta(days=days))

    assert isinstance(found, Rejected)
    assert words in found.message


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, 1_000), byte=st.integers(0, 255), is_root=st.booleans())
@example(at=12, byte=38, is_root=True)
@example(at=15, byte=128, is_root=False)
@example(at=156, byte=3, is_root=True)
def test_corrupt_certificate_never_raises(at: int, byte: int, is_root: bool) -> None:
    certificate, key = (ROOT.certificate, KEY) if is_root else (NODE.certificate, NODE.key)
    der = bytearray(ssl.PEM_cert_to_DER_cert(certificate))
    der[at % len(der)] = byte
    corrupt = ssl.DER_cert_to_PEM_cert(bytes(der))

    for found in certificates.certificates(corrupt):
        certificates.facts(found)
    certificates.is_issued_by(corrupt, ROOT.certificate)
    certificates.is_issued_by(NODE.certificate, corrupt)
    for leaf in (certificates.leaf_of_parts(corrupt, key), certificates.generated_authority(corrupt, key)):
        assert leaf is None or certificates.facts(leaf.certificate)
    for given_one in (certificates.user_provided_authority, certificates.user_provided_leaf):
        assert isinstance(given_one(corrupt, key, "Secret mine", now=NOW), Rejected | Leaf | SigningAuthority)


def test_readable_certificates_of_a_bundle_are_used() -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(NODE.certificate))
    der[der.index(b"a.b")] = 0xFF
    corrupt = ssl.DER_cert_to_PEM_cert(bytes(der))

    assert certificates.certificates(ROOT.certificate + corrupt) == (ROOT.certificate,)
