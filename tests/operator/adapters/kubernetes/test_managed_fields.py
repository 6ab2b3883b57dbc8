"""Fields of other field managers: which are removed, which stay, and how one write removes them."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from managed_api import ManagedApi

from ottla_operator.adapters.kubernetes.managed_fields import FIELDS_OF_OTHERS, is_as_written, repair
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
GUIDE = Path(__file__).parents[4] / "docs" / "kubernetes.md"
KEY = ObjectKey("Service", "kafka", "demo")
SERVICE: Document = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "demo", "namespace": "kafka", "labels": {"a": "b"}},
    "spec": {
        "selector": {"a": "b"},
        "ports": [{"name": "kafka", "port": 9092, "targetPort": "kafka", "protocol": "TCP"}],
    },
}


@pytest.fixture
def managed() -> ManagedApi:
    api = ManagedApi()
    asyncio.run(api.apply(SERVICE))
    return api


def stored(api: ManagedApi) -> Document:
    return api.stored[KEY]


def write_again(api: ManagedApi) -> None:
    found = stored(api)
    if operations := repair(found, SERVICE):
        asyncio.run(api.patch(found, operations))
    asyncio.run(api.apply(SERVICE))


def test_apply_alone_does_not_remove_a_port_of_another_manager(managed: ManagedApi) -> None:
    managed.edit(KEY, lambda it: it["spec"]["ports"].append({"name": "other", "port": 1}))

    asyncio.run(managed.apply(SERVICE))

    assert [it["port"] for it in stored(managed)["spec"]["ports"]] == [9092, 1]
    assert not is_as_written(stored(managed), SERVICE)


def test_apply_alone_is_rejected_when_another_manager_changed_a_port(managed: ManagedApi) -> None:
    managed.edit(KEY, lambda it: it["spec"]["ports"][0].update({"port": 9999}))

    with pytest.raises(ApiError, match="invalid"):
        asyncio.run(managed.apply(SERVICE))

    write_again(managed)
    assert [it["port"] for it in stored(managed)["spec"]["ports"]] == [9092]


def test_manager_loses_only_the_fields_that_are_removed(managed: ManagedApi) -> None:
    def change(it: Document) -> None:
        it["metadata"]["annotations"] = {"theirs": "yes"}
        it["spec"] |= {"externalIPs": ["192.0.2.1"], "loadBalancerIP": "192.0.2.2"}

    managed.edit(KEY, change)

    write_again(managed)

    entries = {it["manager"]: it["fieldsV1"] for it in stored(managed)["metadata"]["managedFields"]}
    assert entries["kubectl-edit"] == {
        "f:metadata": {"f:annotations": {"f:theirs": {}}},
        "f:spec": {"f:loadBalancerIP": {}},
    }
    assert "externalIPs" not in stored(managed)["spec"]
    assert is_as_written(stored(managed), SERVICE)


def test_field_with_a_default_is_not_written_for_ever(managed: ManagedApi) -> None:
    managed.edit(KEY, lambda it: it["spec"].update({"sessionAffinity": "ClientIP"}))

    write_again(managed)

    assert stored(managed)["spec"]["sessionAffinity"] == "None"
    assert is_as_written(stored(managed), SERVICE)


def test_object_of_another_manager_is_taken_over_by_one_write(managed: ManagedApi) -> None:
    """As one that a backup restored, with the owner reference of the Cluster before."""
    (entry,) = stored(managed)["metadata"]["managedFields"]
    entry |= {"manager": "velero-server", "operation": "Update"}

    assert not is_as_written(stored(managed), SERVICE)
    write_again(managed)

    assert is_as_written(stored(managed), SERVICE)
    assert repair(stored(managed), SERVICE) == []


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"manager": "cloud-controller", "operation": "Update", "subresource": "status"}, id="status"),
        pytest.param({"manager": "kubectl", "operation": "Update", "subresource": "scale"}, id="scale"),
        pytest.param({"manager": "other"}, id="without-fields"),
    ],
)
def test_entry_without_fields_of_the_object_does_not_matter(managed: ManagedApi, entry: Document) -> None:
    fields = {"fieldsV1": {"f:spec": {"f:externalIPs": {}}}} if "subresource" in entry else {}
    stored(managed)["metadata"]["managedFields"].append({**entry, **fields})

    assert is_as_written(stored(managed), SERVICE)


def test_object_without_managed_fields_is_compared_by_its_values(managed: ManagedApi) -> None:
    del stored(managed)["metadata"]["managedFields"]

    assert is_as_written(stored(managed), SERVICE)
    assert repair(stored(managed), SERVICE) == []


def test_fields_that_stay_are_documented() -> None:
    _, _, section = GUIDE.read_text().partition("## Changes to the operator's objects")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)

    assert {kind: {*re.findall(r"`([^`]+)`", fields)} for kind, fields in rows} == {**FIELDS_OF_OTHERS}
