"""Every field of a Secret and of an ordered Certificate, changed by another client, is repaired by one write."""

import asyncio
import copy
from dataclasses import replace
from typing import Any

import pytest
from managed_api import ManagedApi
from object_edits import Edit, edits_of

from ottla_operator.adapters.kubernetes.managed_fields import FIELDS_OF_OTHERS
from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.errors import ApiError
from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.listeners import IssuerRef
from ottla_operator.model.manifest import Metadata, ObjectKey
from ottla_operator.model.secret import Secret, ownership

Document = dict[str, Any]
OWNER = Metadata(kind="User", name="alice", namespace="kafka", uid="u")
WANTED = Secret(
    name="alice",
    entries={"password": "p", "username": "alice"},
    labels={"ottla.dev/cluster": "demo"},
    annotations=ownership(OWNER),
    owner_uid="u",
)
SECRET, CERTIFICATE = ObjectKey("Secret", "kafka", "alice"), ObjectKey("Certificate", "kafka", "demo-a")
ORDER = CertificateOrder(name="demo-a", names=("x.svc",), issuer=IssuerRef(name="acme"))
NO_FIELDS = ["stringData", "metadata.ownerReferences[].kind", "metadata.ownerReferences[].name"]
"""The API server stores the first in ``data``; an owner is identified by its uid."""
ADDED_BY_OTHERS = ["metadata.annotations", "metadata.annotations.*", "metadata.finalizers", "metadata.labels.*"]


@pytest.fixture
def managed() -> ManagedApi:
    return ManagedApi()


@pytest.fixture
def secrets(managed: ManagedApi) -> KubernetesSecrets:
    return KubernetesSecrets(managed, "kafka")


def write_if_it_differs(secrets: KubernetesSecrets) -> bool:
    """Do what a reconciliation of a User does with its Secret; tell whether it wrote."""

    async def once() -> bool:
        found = await secrets.read("alice")
        if found is not None and found.covers(WANTED):
            return False
        await secrets.write(replace(WANTED, version="" if found is None else found.version), OWNER)
        return True

    return asyncio.run(once())


def stays(edit: Edit) -> bool:
    """Tell whether an edit is of a field that other clients may set."""
    return edit.field in FIELDS_OF_OTHERS["Secret"] or (edit.field in ADDED_BY_OTHERS and edit.how == "add")


def test_every_field_of_a_secret_is_repaired(managed: ManagedApi, secrets: KubernetesSecrets) -> None:
    assert write_if_it_differs(secrets)
    before, written = copy.deepcopy(managed.stored[SECRET]), managed.content(SECRET)
    edits = [it for it in edits_of(written) if it.field not in NO_FIELDS]
    wrong: list[str] = []
    for edit in edits:
        managed.stored[SECRET] = copy.deepcopy(before)
        try:
            managed.edit(SECRET, edit.change)
        except ApiError:
            continue
        wanted = managed.content(SECRET) if stays(edit) else written
        write_if_it_differs(secrets)
        if managed.content(SECRET) != wanted:
            wrong.append(str(edit))
        elif write_if_it_differs(secrets):
            wrong.append(f"{edit}: written again")

    assert {"add data.*", "change data.*", "remove data.*", "remove metadata.ownerReferences[]"} <= set(map(str, edits))
    assert wrong == []


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"duration": "1h"}, id="added"),
        pytest.param({"dnsNames": ["other"]}, id="changed"),
        pytest.param({"issuerRef": {"name": "acme", "kind": "Issuer", "group": "other"}}, id="added-below"),
    ],
)
def test_edited_certificate_is_ordered_again(managed: ManagedApi, secrets: KubernetesSecrets, fields: Document) -> None:
    asyncio.run(secrets.order_certificate(ORDER, OWNER))
    written = managed.content(CERTIFICATE)
    managed.edit(CERTIFICATE, lambda it: it["spec"].update(fields))

    assert asyncio.run(secrets.has_certificate_order(ORDER)) is False
    asyncio.run(secrets.order_certificate(ORDER, OWNER))

    assert managed.content(CERTIFICATE) == written
    assert asyncio.run(secrets.has_certificate_order(ORDER)) is True
