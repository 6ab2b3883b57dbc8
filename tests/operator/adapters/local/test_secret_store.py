"""Secrets of users as files: written whole, readable by their owner only, and deleted without leftovers."""

import asyncio
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_operator.adapters.local.secret_store import LocalSecrets
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.errors import HostError
from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.listeners import IssuerRef
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret

OWNER = Metadata(kind="User", name="alice")
SECRET = Secret(
    name="alice",
    entries={"password": 'é\r\n"x', "type": "kafka", "bytes": "\udcff"},
    labels={"a": "b"},
    annotations={"ottla.dev/user": "alice"},
)


@pytest.fixture
def secrets(tmp_path: Path) -> LocalSecrets:
    return LocalSecrets(StateDirectory(tmp_path / "state"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "secrets"


def write(secrets: LocalSecrets, secret: Secret = SECRET) -> None:
    asyncio.run(secrets.write(secret, OWNER))


def test_written_secret_is_read_back(secrets: LocalSecrets, folder: Path) -> None:
    write(secrets)

    assert asyncio.run(secrets.read("alice")) == SECRET
    assert asyncio.run(secrets.read_entry("alice", "type")) == "kafka"
    assert secrets.location("alice") == str(folder / "alice")
    assert (folder / "alice" / "type").read_text() == "kafka"


def test_secret_is_readable_by_its_owner_only(secrets: LocalSecrets, folder: Path) -> None:
    write(secrets)

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")] if not path.is_symlink()}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}


def test_second_write_leaves_nothing_of_the_first(secrets: LocalSecrets, folder: Path) -> None:
    write(secrets)
    write(secrets, replace(SECRET, entries={"type": "kafka"}))

    assert not (folder / "alice" / "password").exists()
    assert len(list(folder.iterdir())) == 2, "a link and a folder"


def test_write_that_was_killed_is_cleaned_up_by_the_next(secrets: LocalSecrets, folder: Path) -> None:
    write(secrets)
    (folder / ".alice.0123").mkdir()
    (folder / ".alice.0123.link").symlink_to(".alice.0123")
    (folder / ".alice.b.0123").mkdir()

    write(secrets)

    assert len(list(folder.glob(".alice.*"))) == 2, "its own, and that of alice.b"
    assert (folder / ".alice.b.0123").is_dir()


def test_deleted_secret_leaves_nothing(secrets: LocalSecrets, folder: Path) -> None:
    write(secrets)
    asyncio.run(secrets.delete("alice"))
    asyncio.run(secrets.delete("alice"))

    assert list(folder.iterdir()) == []
    assert asyncio.run(secrets.read("alice")) is None


def test_folder_of_the_user_has_no_owner(secrets: LocalSecrets, folder: Path) -> None:
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "pw").write_bytes(b"open sesame")
    found = asyncio.run(secrets.read("mine"))

    assert found is not None
    assert not found.belongs_to(OWNER)
    assert asyncio.run(secrets.read_entry("mine", "pw")) == "open sesame"
    assert asyncio.run(secrets.read_entry("mine", "other")) is None


def test_corrupt_secret_is_named(secrets: LocalSecrets, folder: Path) -> None:
    write(secrets)
    (folder / "alice" / ".metadata.json").write_text("{")

    with pytest.raises(HostError, match="is corrupt; remove it"):
        asyncio.run(secrets.read("alice"))


def test_local_host_has_no_cert_manager(secrets: LocalSecrets) -> None:
    order = CertificateOrder(name="demo-listener-a", names=("localhost",), issuer=IssuerRef(name="acme"))

    assert asyncio.run(secrets.has_certificate_order(order)) is False
    with pytest.raises(HostError, match="name a Secret with secretName instead of issuerRef"):
        asyncio.run(secrets.order_certificate(order, OWNER))
