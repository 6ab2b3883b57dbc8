"""Keys and certificates from every type of store; each error says in one line what to do."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from ottla.config.tls_settings import TlsSettings, read_tls_settings
from ottla.errors import ConfigurationError
from ottla.tls.material import KeyMaterial, load_key_material, load_trusted, stamp_of


def settings(**said: str) -> TlsSettings:
    properties = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    return read_tls_settings(properties | {f"ssl.{key.replace('_', '.')}": text for key, text in said.items()}, "SSL")


def of_file(path: Path, content: str | bytes, **said: str) -> TlsSettings:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return settings(keystore_location=str(path), **said)


def to_pkcs12(issued: Any, password: str | None) -> bytes:
    key = load_pem_private_key(issued.key.encode(), None)
    first, *others = x509.load_pem_x509_certificates(issued.chain.encode())
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(b"node", key, first, others, encryption)  # type: ignore[arg-type]


def loaded(said: TlsSettings) -> KeyMaterial:
    material = load_key_material(said)
    assert material is not None
    return material


def pem_of(material: KeyMaterial) -> str:
    return material.chain_pem.decode()


def test_pem_file_holds_key_and_chain_in_any_order(authority: Any, tmp_path: Path) -> None:
    issued = authority.issue()
    first = loaded(of_file(tmp_path / "1.pem", issued.key + issued.chain))
    second = loaded(of_file(tmp_path / "2.pem", authority.pem + issued.certificate + issued.key))

    assert pem_of(first) == pem_of(second) == issued.chain
    assert first.key_pem.decode() == issued.key


def test_pem_in_the_configuration_may_have_blanks_for_line_breaks(authority: Any) -> None:
    issued = authority.issue()
    material = loaded(
        settings(keystore_key=" ".join(issued.key.split()), keystore_certificate_chain=issued.chain.replace("\n", " "))
    )

    assert pem_of(material) == issued.chain
    assert material.key_pem.decode() == issued.key


@pytest.mark.parametrize("where", ["file", "inline"])
def test_encrypted_key_is_decrypted_with_its_password(authority: Any, tmp_path: Path, where: str) -> None:
    issued = authority.issue(password="open sesame")
    if where == "file":
        said = of_file(tmp_path / "k.pem", issued.both, key_password="open sesame")
    else:
        said = settings(keystore_key=issued.key, keystore_certificate_chain=issued.chain, key_password="open sesame")

    assert pem_of(loaded(said)) == issued.chain


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
@pytest.mark.parametrize("password", ["secret", None], ids=["password", "no-password"])
def test_pkcs12_file_is_also_read_under_javas_default_type(
    authority: Any, tmp_path: Path, kind: str, password: str | None
) -> None:
    issued = authority.issue()
    more = {} if password is None else {"keystore_password": password}
    said = of_file(tmp_path / "k.p12", to_pkcs12(issued, password), keystore_type=kind, **more)

    assert pem_of(loaded(said)) == issued.chain


def test_trusted_certificates_come_from_pem_from_the_configuration_and_from_pkcs12(
    authority: Any, new_authority: Callable[..., Any], tmp_path: Path
) -> None:
    other = new_authority("Other CA")
    (tmp_path / "t.pem").write_text(authority.pem + other.pem)
    certificates = [authority.certificate, other.certificate]
    key = load_pem_private_key(authority.issue().key.encode(), None)
    (tmp_path / "t.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(None, None, None, certificates, BestAvailableEncryption(b"secret"))
    )
    own = {"keystore_key": "k", "keystore_certificate_chain": "c"}
    stores = [
        settings(truststore_location=str(tmp_path / "t.pem"), **own),
        settings(truststore_certificates=authority.pem + other.pem, **own),
        settings(
            truststore_location=str(tmp_path / "t.p12"), truststore_type="PKCS12", truststore_password="secret", **own
        ),
    ]

    assert key is not None
    assert [load_trusted(store) for store in stores] == [tuple(certificates)] * 3


def test_without_stores_nothing_is_loaded() -> None:
    said = read_tls_settings({}, "CONTROLLER", opened=False)

    assert load_key_material(said) is None
    assert load_trusted(said) is None
    assert stamp_of(said) == ()


def test_stamp_changes_when_a_file_changes_or_disappears(authority: Any, tmp_path: Path) -> None:
    said = of_file(tmp_path / "k.pem", authority.issue().both)
    stamps = [stamp_of(said), stamp_of(said)]
    (tmp_path / "new").write_text(authority.issue().both)
    (tmp_path / "new").rename(tmp_path / "k.pem")
    stamps.append(stamp_of(said))
    (tmp_path / "k.pem").unlink()
    stamps.append(stamp_of(said))

    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 3
    assert stamps[3] == (None,)


@pytest.mark.parametrize(
    ("broken", "said", "expected"),
    [
        pytest.param(lambda it: it.key, {}, "has no certificate in it", id="no-certificate"),
        pytest.param(lambda it: it.chain, {}, "has 0 private keys in it", id="no-key"),
        pytest.param(lambda it: it.key + it.both, {}, "has 2 private keys in it", id="two-keys"),
        pytest.param(lambda it: "hello", {}, "is not PEM: it has no BEGIN line", id="no-pem"),
        pytest.param(
            lambda it: b"\xfe\xed\xfe\xed....", {}, "is a JKS store, which only Java can read", id="jks-as-pem"
        ),
        pytest.param(
            lambda it: b"\xfe\xed\xfe\xed....",
            {"keystore_type": "JKS"},
            "keytool -importkeystore -srckeystore",
            id="jks",
        ),
        pytest.param(
            lambda it: it.both, {"keystore_type": "JKS"}, "is PEM: set ssl.keystore.type=PEM", id="pem-as-jks"
        ),
        pytest.param(lambda it: b"junk", {"keystore_type": "PKCS12"}, "is neither PKCS12 nor PEM", id="junk"),
        pytest.param(
            lambda it: to_pkcs12(it, "right"),
            {"keystore_type": "PKCS12", "keystore_password": "wrong"},
            "is not opened by ssl.keystore.password",
            id="wrong-store-password",
        ),
        pytest.param(
            lambda it: to_pkcs12(it, "right"),
            {"keystore_type": "PKCS12"},
            "needs ssl.keystore.password",
            id="no-password",
        ),
        pytest.param(lambda it: it.key.replace("M", "!") + it.chain, {}, "has no usable private key", id="broken-key"),
        pytest.param(
            lambda it: it.key + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            {},
            "has a broken certificate",
            id="broken-certificate",
        ),
    ],
)
def test_bad_store_is_rejected_with_one_line(
    authority: Any, tmp_path: Path, broken: Callable[[Any], Any], said: dict[str, str], expected: str
) -> None:
    bad = of_file(tmp_path / "store", broken(authority.issue()), **said)

    with pytest.raises(ConfigurationError) as failed:
        load_key_material(bad)

    assert expected in str(failed.value)
    assert str(tmp_path / "store") in str(failed.value)
    assert "\n" not in str(failed.value)


def test_key_of_another_certificate_is_rejected(authority: Any, tmp_path: Path) -> None:
    said = of_file(tmp_path / "k.pem", authority.issue().key + authority.issue().chain)

    with pytest.raises(ConfigurationError, match="that do not belong together"):
        load_key_material(said)


@pytest.mark.parametrize(
    ("password", "expected"),
    [
        pytest.param({}, "has an encrypted private key: set ssl.key.password", id="none"),
        pytest.param({"key_password": "wrong"}, "that ssl.key.password does not open", id="wrong"),
    ],
)
def test_encrypted_key_without_its_password_is_rejected(
    authority: Any, tmp_path: Path, password: dict[str, str], expected: str
) -> None:
    said = of_file(tmp_path / "k.pem", authority.issue(password="right").both, **password)

    with pytest.raises(ConfigurationError) as failed:
        load_key_material(said)

    assert expected in str(failed.value)
    assert "wrong" not in str(failed.value)


def test_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    said = settings(keystore_location=str(tmp_path / "nowhere.pem"))

    with pytest.raises(ConfigurationError, match=r"nowhere\.pem cannot be read: No such file"):
        load_key_material(said)


def test_pipe_is_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pem")

    with pytest.raises(ConfigurationError, match=r"pipe\.pem is no regular file"):
        load_key_material(settings(keystore_location=str(tmp_path / "pipe.pem")))


@pytest.mark.parametrize("key", ["keystore_location", "truststore_location"])
def test_endless_file_is_rejected(key: str) -> None:
    said = settings(**{"keystore_location": "/dev/zero", key: "/dev/zero"})

    with pytest.raises(ConfigurationError, match="/dev/zero is no regular file"):
        load_key_material(said) if key == "keystore_location" else load_trusted(said)


def test_file_of_one_mebibyte_is_read_and_a_larger_one_is_not(authority: Any, tmp_path: Path) -> None:
    issued = authority.issue()
    padded = issued.both.ljust((1 << 20) - 1) + "\n"

    assert pem_of(loaded(of_file(tmp_path / "k.pem", padded))) == issued.chain
    with pytest.raises(ConfigurationError, match=r"k\.pem is larger than 1048576 bytes"):
        loaded(of_file(tmp_path / "k.pem", padded + "\n"))


def test_empty_trust_store_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "t.pem").write_text("-----BEGIN NOTHING-----\n-----END NOTHING-----\n")
    own = {"keystore_key": "k", "keystore_certificate_chain": "c"}

    with pytest.raises(ConfigurationError, match="has no certificate in it"):
        load_trusted(settings(truststore_location=str(tmp_path / "t.pem"), **own))


def test_key_material_does_not_print_itself(authority: Any, tmp_path: Path) -> None:
    issued = authority.issue()
    material = loaded(of_file(tmp_path / "k.pem", issued.both))

    assert issued.key.splitlines()[1] not in repr(material)
