"""Subjects of certificates are written as Java writes them."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from ottla.tls.distinguished_name import format_name, subject_of

UID = NameOID.USER_ID
VALUES = (
    "plain",
    'a,b+c"d\\e<f>g;h=i',
    "#leading",
    "in # side",
    " blanks around ",
    "   ",
    "two  blanks",
    "Zürich 東京 🚀",
    "tab\tand\nline",
    "\x00nul",
)
OIDS = (
    NameOID.COMMON_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.DOMAIN_COMPONENT,
    UID,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
    NameOID.SURNAME,
    NameOID.GIVEN_NAME,
    ObjectIdentifier("2.999.1.16384"),
    ObjectIdentifier("1.2.3.4"),
)
TYPES = (
    (_ASN1Type.PrintableString, "print able"),
    (_ASN1Type.IA5String, "a@b"),
    (_ASN1Type.BMPString, "b m p ü"),
    (_ASN1Type.UniversalString, "universal ü"),
    (_ASN1Type.T61String, "t61"),
)


def attribute(oid: ObjectIdentifier, value: str, kind: Any = None) -> x509.NameAttribute:
    return x509.NameAttribute(oid, value, kind, _validate=False)


def names() -> list[x509.Name]:
    values = [x509.Name([attribute(NameOID.COMMON_NAME, value)]) for value in VALUES]
    kinds = [x509.Name([attribute(oid, "DE" if oid == NameOID.COUNTRY_NAME else "value")]) for oid in OIDS]
    types = [x509.Name([attribute(NameOID.COMMON_NAME, value, kind)]) for kind, value in TYPES]
    several = x509.Name(
        [
            x509.RelativeDistinguishedName([attribute(NameOID.COUNTRY_NAME, "DE")]),
            x509.RelativeDistinguishedName([attribute(UID, "u"), attribute(NameOID.COMMON_NAME, "c")]),
            x509.RelativeDistinguishedName([attribute(NameOID.ORGANIZATION_NAME, "o" * 300)]),
        ]
    )
    return [*values, *kinds, *types, several, x509.Name([])]


def der(name: x509.Name) -> bytes:
    return name.public_bytes()


def ours(name: x509.Name) -> str:
    encoded = der(name)
    header = 2 if encoded[1] < 0x80 else 2 + (encoded[1] & 0x7F)
    return format_name(encoded[header:])


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK to compare with")
def test_every_name_is_written_as_java_writes_it() -> None:
    source = Path(__file__).with_name("PrintPrincipalNames.java")
    all_names = names()
    ran = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", str(source)],
        input="".join(f"{der(name).hex()}\n" for name in all_names),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert ran.stdout.splitlines() == [ours(name).encode().hex() for name in all_names]


def test_subject_of_a_certificate_starts_with_its_last_part(authority: Any) -> None:
    certificate = x509.load_pem_x509_certificate(authority.issue("CN=client,OU=tests,C=DE").certificate.encode())

    assert subject_of(certificate.public_bytes(Encoding.DER)) == "CN=client,OU=tests,C=DE"


@pytest.mark.parametrize(
    ("der", "message"),
    [
        pytest.param("", "elements are missing", id="nothing"),
        pytest.param("3000", "elements are missing", id="an-empty-certificate"),
        pytest.param("30023000", "elements are missing", id="no-subject"),
        pytest.param("3011300f020101300030003000300431023000", "not enough", id="an-empty-attribute"),
        pytest.param("3016301402010130003000300030093107300506000c0178", "elements are missing", id="an-empty-number"),
    ],
)
def test_malformed_der_raises_value_error(der: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        subject_of(bytes.fromhex(der))


@pytest.mark.parametrize(
    "cut", [lambda der: der[:-1], lambda der: der[:40], lambda der: b"\x30"], ids=["end", "middle", "start"]
)
def test_bytes_that_are_no_certificate_are_rejected(authority: Any, cut: Callable[[bytes], bytes]) -> None:
    certificate = authority.certificate.public_bytes(Encoding.DER)

    with pytest.raises(ValueError, match="truncated"):
        subject_of(cut(certificate))
