"""Manifests in files and in the state directory: reads them, and adds metadata as the API server does."""

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TextIO

import yaml

from ottla_operator.errors import ManifestError, OperatorError, Violation
from ottla_operator.model import schema
from ottla_operator.model.document import API_VERSION, GROUP, KINDS, Document

_USER_METADATA = ("name", "namespace", "labels", "annotations")


def read_manifests(sources: Iterable[Path | TextIO]) -> list[Document]:
    """Return all documents of YAML (or JSON) files, of ``*.yaml`` files in folders, and of open streams, in order.

    Raises:
        ManifestError: a document is not a mapping, or a file is not YAML in UTF-8.
        OSError: a file cannot be read.
    """
    documents: list[Document] = []
    for source in sources:
        if isinstance(source, Path):
            for file in sorted(source.glob("*.yaml")) if source.is_dir() else [source]:
                documents += _parse(partial(file.read_text, encoding="utf-8"), str(file))
        else:
            documents += _parse(source.read, str(getattr(source, "name", "the given text")))
    return documents


def canonical_kind(text: str) -> str:
    """Return the kind that ``text`` means, in any form that kubectl accepts: ``Topic``, ``topics``, ``ot``.

    Raises:
        OperatorError: it is no kind.
    """
    for kind in KINDS:
        names = schema.definition(kind)["spec"]["names"]
        if text.lower().removesuffix(f".{GROUP}") in {names["singular"], names["plural"], *names["shortNames"]}:
            return kind
    raise OperatorError(f"there is no kind {text!r}; kinds: {', '.join(kind.lower() for kind in KINDS)}")


def desired_by_user(document: Document) -> Document:
    """Return ``document`` without fields that the store adds, so that the output of ``get`` can be applied again."""
    metadata = document.get("metadata")
    kept = {name: document[name] for name in document if name != "status"}
    if isinstance(metadata, dict):
        kept["metadata"] = {name: metadata[name] for name in _USER_METADATA if name in metadata}
    return kept


def stamped(admitted: Document, stored: Document | None, *, now: str) -> Document:
    """Return ``admitted`` with uid, creation time and a generation that counts changes of the spec."""
    fresh: Document = {"uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1}
    before: Document = stored["metadata"] if stored else fresh
    is_changed = stored is not None and stored["spec"] != admitted["spec"]
    return {
        "apiVersion": admitted["apiVersion"],
        "kind": admitted["kind"],
        "metadata": {
            **admitted["metadata"],
            "uid": before["uid"],
            "creationTimestamp": before["creationTimestamp"],
            "generation": before["generation"] + is_changed,
        },
        "spec": admitted["spec"],
        **({"status": admitted["status"]} if "status" in admitted else {}),
    }


def cluster_manifest(name: str) -> Document:
    """Return the smallest Cluster: one pool of one node."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"pools": [_pool("main", 1)]},
    }


def with_nodes(document: Document, brokers: int | None, controllers: int | None) -> Document:
    """Return the Cluster ``document`` with other numbers of nodes; None leaves a number unchanged.

    Without ``controllers``, the first three brokers (the first one, if there are fewer) are controllers, too.

    Raises:
        ManifestError: it has other pools than those of this function, which only its manifest can change.
    """
    before = {pool["name"]: pool for pool in document["spec"]["pools"]}
    if not before.keys() <= {"main", "brokers", "controllers"}:
        message = f"has the pools {', '.join(before)}; change their nodes in its manifest and apply it"
        raise ManifestError(f"Cluster {document['metadata']['name']}", (Violation("spec.pools", message),))
    is_apart = controllers is not None or "controllers" in before
    if brokers is None:
        brokers = sum(pool["nodes"] for pool in before.values() if "broker" in pool.get("roles", ["broker"]))
    wanted: dict[str, Document] = {}
    if is_apart:
        wanted["brokers"] = _pool("brokers", brokers, ["broker"])
        count = before["controllers"]["nodes"] if controllers is None else controllers
        wanted["controllers"] = _pool("controllers", count, ["controller"], _FIRST_CONTROLLER_ID)
    else:
        combined = _COMBINED_MAX if brokers >= _COMBINED_MAX else 1
        wanted["main"] = _pool("main", combined)
        if brokers > combined or "brokers" in before:
            wanted["brokers"] = _pool("brokers", brokers - combined, ["broker"], _COMBINED_MAX)
    pools = [{**pool, **before.get(name, {}), "nodes": pool["nodes"]} for name, pool in wanted.items()]
    return {**document, "spec": {**document["spec"], "pools": pools}}


_COMBINED_MAX = 3
_FIRST_CONTROLLER_ID = 100


def _pool(name: str, nodes: int, roles: list[str] | None = None, first_node_id: int = 0) -> Document:
    pool: Document = {"name": name, "nodes": nodes, "storage": {"size": "10Gi"}}
    if roles is not None:
        pool["roles"] = roles
    if first_node_id:
        pool["firstNodeId"] = first_node_id
    return pool


def _parse(read: Callable[[], str], origin: str) -> list[Document]:
    try:
        documents = [document for document in yaml.safe_load_all(read()) if document is not None]
    except UnicodeDecodeError as error:
        raise ManifestError(origin, (Violation("", f"not UTF-8: {error}"),)) from error
    except yaml.YAMLError as error:
        raise ManifestError(origin, (Violation("", f"not YAML: {error}"),)) from error
    for document in documents:
        if not isinstance(document, dict):
            raise ManifestError(origin, (Violation("", f"a manifest is a mapping, not {document!r:.40}"),))
    return documents
