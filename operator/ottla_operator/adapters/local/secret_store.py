"""Secrets as folders of a state directory: a file for each entry, readable by their owner only.

``secrets/<name>`` is a link to a folder that is written as a whole and never changed: a reader finds the old entries or
the new ones, never some of each. A folder that the user created there is a Secret of the user's.
"""

import json
import os
import shutil
import uuid
from pathlib import Path

from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.errors import HostError
from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret

_METADATA = ".metadata.json"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class LocalSecrets:
    """The `SecretStore` port over files."""

    def __init__(self, directory: StateDirectory) -> None:
        self._folder = directory.path / "secrets"

    async def read(self, name: str) -> Secret | None:
        path = self._folder / name
        if not path.is_dir():
            return None
        try:
            metadata = json.loads((path / _METADATA).read_text(encoding="utf-8"))
        except FileNotFoundError:
            metadata = {}
        except ValueError as error:
            raise HostError("SecretDamaged", f"{path} is corrupt; remove it") from error
        return Secret(
            name=name,
            entries={file.name: _text(file) for file in sorted(path.iterdir()) if not file.name.startswith(".")},
            labels=metadata.get("labels", {}),
            annotations=metadata.get("annotations", {}),
        )

    async def write(self, secret: Secret, owner: Metadata) -> None:
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        new = self._folder / f".{secret.name}.{uuid.uuid4().hex}"
        new.mkdir(mode=_FOLDER_MODE)
        metadata = {"labels": dict(secret.labels), "annotations": dict(secret.annotations)}
        for name, text in {**secret.entries, _METADATA: json.dumps(metadata)}.items():
            _write(new / name, text)
        link = self._folder / f"{new.name}.link"
        link.symlink_to(new.name)
        link.replace(self._folder / secret.name)
        self._remove_folders(secret.name, but=new.name)

    async def delete(self, name: str) -> None:
        path = self._folder / name
        if path.is_symlink():
            path.unlink()
        self._remove_folders(name)

    async def read_entry(self, name: str, key: str) -> str | None:
        path = self._folder / name / key
        return _text(path) if path.is_file() else None

    async def has_certificate_order(self, order: CertificateOrder) -> bool:
        return False

    async def order_certificate(self, order: CertificateOrder, owner: Metadata) -> None:
        raise HostError(
            "Unsupported",
            f"certificate {order.name} is issued by cert-manager, which a local host does not have; name a "
            "Secret with secretName instead of issuerRef, or leave the certificate to the cluster's own authority",
        )

    async def withdraw_certificate(self, name: str, owner: Metadata) -> None:
        """Do nothing: no certificate is ever ordered here."""

    def location(self, name: str) -> str:
        return str(self._folder / name)

    def _remove_folders(self, name: str, but: str = "") -> None:
        """Remove folders of earlier writes, including unfinished ones."""
        for path in self._folder.glob(f".{name}.*"):
            if path.name == but or "." in path.name.removeprefix(f".{name}.").removesuffix(".link"):
                continue
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape")
