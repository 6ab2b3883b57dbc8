"""Secrets as values: their owners, and that they never print their entries."""

from dataclasses import replace

import pytest

from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret, ownership

CLUSTER, USER = Metadata(kind="Cluster", name="demo"), Metadata(kind="User", name="demo")
SECRET = Secret(name="demo-nodes", entries={"node.pem": "hidden"}, annotations=ownership(CLUSTER))


def test_secret_is_of_the_object_that_its_annotation_names() -> None:
    assert SECRET.belongs_to(CLUSTER)
    assert not SECRET.belongs_to(USER)
    assert not Secret(name="demo-nodes", entries={}).belongs_to(CLUSTER)


def test_secret_of_two_owners_is_of_neither() -> None:
    both = Secret(name="demo-cluster-ca", entries={}, annotations={**ownership(CLUSTER), **ownership(USER)})

    assert not both.belongs_to(CLUSTER)
    assert not both.belongs_to(USER)


def test_what_others_added_does_not_matter() -> None:
    found = Secret(name="demo-nodes", entries={"node.pem": "hidden"}, annotations={**ownership(CLUSTER), "x": "y"})

    assert found.covers(SECRET)
    assert not SECRET.covers(found)
    assert not found.covers(Secret(name="demo-nodes", entries={}))


@pytest.mark.parametrize(
    ("version", "found", "is_so"),
    [
        pytest.param("", "", True, id="local-host"),
        pytest.param("1", "new", True, id="same-owner"),
        pytest.param("1", "old", False, id="recreated-owner"),
        pytest.param("1", "", False, id="owner-removed"),
    ],
)
def test_secret_that_goes_with_another_object_is_written_again(version: str, found: str, is_so: bool) -> None:
    seen = replace(SECRET, owner_uid=found, version=version)

    assert seen.covers(replace(SECRET, owner_uid="new")) is is_so


def test_secret_with_fields_of_other_clients_is_written_again() -> None:
    assert not replace(SECRET, has_other_fields=True).covers(SECRET)


def test_entries_are_not_printed() -> None:
    assert "hidden" not in repr(SECRET)
