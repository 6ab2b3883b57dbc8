"""The CRDs on a real API server: its result for every manifest is that of `ottla apply` on a laptop."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from crd_cases import CHANGES, NEW, REJECTED, REJECTED_CHANGES, Document, cluster, topic

from ottla.cli.yaml_form import to_yaml
from ottla_operator.errors import ManifestError
from ottla_operator.model import schema
from ottla_operator.model.document import KINDS

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def server(namespace: Any) -> Iterator["Server"]:
    server = Server(namespace)
    yield server
    server.clean()


class Server:
    """The API server's opinion of manifests, each under a name of its own."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace
        self._stored: list[str] = []
        # Cluster names are short, and begin with a letter.
        self.name = f"x{uuid.uuid4().hex[:8]}"

    def manifest(self, document: Document) -> Document:
        return {"apiVersion": "ottla.dev/v1", "metadata": {"name": self.name}, **document}

    def admits(self, document: Document) -> bool:
        return self.rejection(document) is None

    def rejection(self, document: Document) -> str | None:
        """Return the server's message; None where it would accept the manifest."""
        text = to_yaml(self.manifest(document))
        try:
            self._namespace.kubectl("apply", "--dry-run=server", "-f", "-", text=text)
        except AssertionError as rejection:
            words = str(rejection)
            assert any(it in words for it in ("is invalid", "strict decoding error", "ValidationError")), words
            return words
        return None

    def store(self, document: Document, status: Document) -> Document:
        self._namespace.apply(self.manifest(document))
        plural = f"{document['kind'].lower()}s.ottla.dev"
        self._stored.append(f"{plural}/{self.name}")
        if status:
            patch = json.dumps({"status": status})
            self._namespace.kubectl("patch", plural, self.name, "--subresource=status", "--type=merge", "-p", patch)
        stored: Document = self._namespace.get(plural, self.name)
        return stored

    def clean(self) -> None:
        for name in self._stored:
            self._namespace.kubectl("delete", name)


def laptop_admits(document: Document, stored: Document | None = None) -> bool:
    try:
        schema.admit(document, stored)
    except ManifestError:
        return False
    return True


@pytest.mark.parametrize(("document", "is_admitted"), NEW)
def test_new_manifest_has_the_same_result_everywhere(server: Server, document: Document, is_admitted: bool) -> None:
    assert server.admits(document) is is_admitted
    assert laptop_admits(server.manifest(document)) is is_admitted


@pytest.mark.parametrize(("before", "status", "after", "is_admitted"), CHANGES)
def test_change_has_the_same_result_everywhere(
    server: Server, before: Document, status: Document, after: Document, is_admitted: bool
) -> None:
    stored = server.store(before, status)

    assert server.admits(after) is is_admitted
    assert laptop_admits(server.manifest(after), stored) is is_admitted


@pytest.mark.parametrize(("document", "said"), REJECTED)
def test_new_manifest_is_rejected_with_the_same_message_everywhere(
    server: Server, document: Document, said: str
) -> None:
    assert said in (server.rejection(document) or "admitted")
    with pytest.raises(ManifestError, match=re.escape(said)):
        schema.admit(server.manifest(document))


@pytest.mark.parametrize(("before", "after", "said"), REJECTED_CHANGES)
def test_change_is_rejected_with_the_same_message_everywhere(
    server: Server, before: Document, after: Document, said: str
) -> None:
    stored = server.store(before, {})

    assert said in (server.rejection(after) or "admitted")
    with pytest.raises(ManifestError, match=re.escape(said)):
        schema.admit(server.manifest(after), stored)


@pytest.mark.parametrize(
    ("name", "is_admitted"), [("a" * 32, True), ("a" * 33, False), ("9a", False), ("a.b", False), ("a-9", True)]
)
def test_cluster_name_has_the_same_result_everywhere(server: Server, name: str, is_admitted: bool) -> None:
    document = cluster() | {"metadata": {"name": name}}

    assert server.admits(document) is is_admitted
    assert laptop_admits(server.manifest(document)) is is_admitted


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_server_stores_examples_unchanged(namespace: Any, file: Path) -> None:
    """Anything else would be a difference that GitOps tools find."""
    manifests = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))

    applied = json.loads(namespace.kubectl("apply", "--dry-run=server", "-o", "json", "-f", str(file)))
    stored = applied["items"] if applied["kind"] == "List" else [applied]

    assert [it["spec"] for it in stored] == [it["spec"] for it in manifests]


@pytest.mark.parametrize("kind", KINDS)
def test_definition_is_read_back_as_it_was_written(namespace: Any, kind: str) -> None:
    """A GitOps tool reads back what it applies: the server adds no defaults."""
    definition = schema.definition(kind)

    assert namespace.get("crd", definition["metadata"]["name"])["spec"] == definition["spec"]


def test_kinds_are_listed_together_and_not_among_all(namespace: Any, server: Server) -> None:
    server.store(topic(), {})

    assert f"topic.ottla.dev/{server.name}" in namespace.names("ottla")
    assert not [name for name in namespace.names("all") if "ottla.dev" in name]
