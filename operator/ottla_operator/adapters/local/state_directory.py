"""A directory that stands in for the API server: stores manifests with their status, one file per object.

======================================  =========================================
``objects/<kind>/<name>.yaml``          the object, in the form of ``kubectl get -o yaml``
``secrets/<name>/``                     Secrets; see `adapters.local.secret_store`
``nodes/<node>/``                       files of a node; see `adapters.local.host`
``.lock``                               held while a command changes anything
======================================  =========================================
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from ottla_operator.errors import OperatorError
from ottla_operator.model.document import Document


class StateDirectory:
    """Objects on disk; every write replaces a whole file in one step."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from changing this directory; waits for one that does."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self, kind: str, name: str) -> Document | None:
        """Return the stored object; None without one.

        Raises:
            OperatorError: the file is not one of `write`.
        """
        path = self._file(kind, name)
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except yaml.YAMLError as error:
            raise OperatorError(f"{path} is corrupt ({error}); remove it and apply the manifest again") from error
        if not isinstance(document, dict) or document.get("kind") != kind:
            raise OperatorError(f"{path} does not hold a {kind}; remove it and apply the manifest again")
        return document

    def objects(self, kind: str) -> list[Document]:
        """Return the objects of ``kind`` by name."""
        folder = self.path / "objects" / kind.lower()
        names = sorted(path.stem for path in folder.glob("*.yaml")) if folder.is_dir() else []
        return [document for name in names if (document := self.read(kind, name)) is not None]

    def write(self, document: Document) -> None:
        path = self._file(document["kind"], document["metadata"]["name"])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_in_one_step(path, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))

    def remove(self, kind: str, name: str) -> None:
        self._file(kind, name).unlink(missing_ok=True)

    def node_directory(self, name: str) -> Path:
        return self.path / "nodes" / name

    def node_names(self) -> list[str]:
        folder = self.path / "nodes"
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def _file(self, kind: str, name: str) -> Path:
        return self.path / "objects" / kind.lower() / f"{name}.yaml"


def write_in_one_step(path: Path, text: str) -> None:
    """Replace the file at ``path``: a reader sees the old or the new contents, never part of them."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
