"""Secrets on Kubernetes. Bytes that are not UTF-8 are kept as surrogates, which no password may contain."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager

from ottla_operator.adapters.kubernetes.managed_fields import has_fields_of_others, is_as_written, repair
from ottla_operator.errors import ApiError, HostError
from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.document import API_VERSION, Document
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import OPAQUE, Secret, ownership
from ottla_operator.ports.object_store import ObjectStore

_CERTIFICATE = "Certificate"


class KubernetesSecrets:
    """The `SecretStore` port over the Kubernetes API, for one namespace."""

    def __init__(self, api: ObjectStore, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def read(self, name: str) -> Secret | None:
        found = await self._api.get("Secret", self._namespace, name)
        return None if found is None else secret_of(found)

    async def write(self, secret: Secret, owner: Metadata) -> None:
        identity = {"name": secret.name, "namespace": self._namespace}
        document: Document = {"apiVersion": "v1", "kind": "Secret", "type": secret.type}
        data = {key: base64.b64encode(_bytes(value)).decode() for key, value in secret.entries.items()}
        with _discreet(secret.name):
            version = secret.version
            if not version:
                # An apply could take over a Secret that another client creates at this moment. Only the permanent
                # fields are created: an apply never removes a field of a creation.
                created = await self._api.create(
                    {**document, "metadata": {**identity, "annotations": ownership(owner)}}
                )
                version = created["metadata"]["resourceVersion"]
            metadata = {
                **identity,
                "labels": dict(secret.labels),
                "annotations": dict(secret.annotations),
                "ownerReferences": [_reference(owner)],
            }
            if secret.version:
                version = await self._without_other_fields({**document, "metadata": metadata, "data": data}, version)
            await self._api.apply({**document, "metadata": {**metadata, "resourceVersion": version}, "data": data})

    async def _without_other_fields(self, wanted: Document, version: str) -> str:
        """Remove fields that other clients added to the Secret of ``version``, and return its version after that."""
        found = await self._api.get("Secret", self._namespace, wanted["metadata"]["name"])
        if found is None or found["metadata"]["resourceVersion"] != version:
            # The apply is rejected.
            return version
        operations = repair(found, wanted)
        patched = await self._api.patch(found, operations) if operations else found
        return str(patched["metadata"]["resourceVersion"])

    async def delete(self, name: str) -> None:
        await self._api.delete("Secret", self._namespace, name)

    async def read_entry(self, name: str, key: str) -> str | None:
        found = await self._api.get("Secret", self._namespace, name)
        value = (found or {}).get("data", {}).get(key)
        return None if value is None else _text(value)

    async def has_certificate_order(self, order: CertificateOrder) -> bool:
        found = await self._api.get(_CERTIFICATE, self._namespace, order.name)
        return found is not None and is_as_written(found, {"spec": order.spec})

    async def order_certificate(self, order: CertificateOrder, owner: Metadata) -> None:
        metadata = {"name": order.name, "namespace": self._namespace, "ownerReferences": [_reference(owner)]}
        document: Document = {"apiVersion": "cert-manager.io/v1", "kind": _CERTIFICATE, "metadata": metadata}
        wanted = {**document, "spec": order.spec}
        try:
            applied = await self._api.apply(wanted)
            if operations := repair(applied, wanted):
                await self._api.patch(applied, operations)
        except ApiError as error:
            if not error.is_missing:
                raise
            raise HostError(
                "CertManagerMissing",
                f"certificate {order.name} is issued by cert-manager, which is not installed here; install it, or "
                "name a Secret with secretName instead of issuerRef",
            ) from error

    async def withdraw_certificate(self, name: str, owner: Metadata) -> None:
        found = await self._api.get(_CERTIFICATE, self._namespace, name)
        owners = (found or {}).get("metadata", {}).get("ownerReferences") or ()
        if any(it["uid"] == owner.uid for it in owners):
            await self._api.delete(_CERTIFICATE, self._namespace, name)

    def location(self, name: str) -> str:
        return name


def secret_of(document: Document) -> Secret:
    """Parse a Secret of the API."""
    metadata = document["metadata"]
    owners = (it["uid"] for it in metadata.get("ownerReferences") or () if it.get("controller"))
    return Secret(
        name=metadata["name"],
        type=document.get("type", OPAQUE),
        entries={key: _text(value) for key, value in (document.get("data") or {}).items()},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        owner_uid=next(owners, ""),
        has_other_fields=has_fields_of_others(document),
        version=metadata["resourceVersion"],
    )


@contextmanager
def _discreet(name: str) -> Iterator[None]:
    """Drop the server's message from errors: it may quote the Secret."""
    try:
        yield
    except ApiError as error:
        raise ApiError(error.status, error.reason, f"Secret {name} was not written") from None


def _reference(owner: Metadata) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def _text(value: str) -> str:
    return base64.b64decode(value).decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    """The reverse of `_text`."""
    return text.encode(errors="surrogateescape")
