"""Names of objects: valid, unique, and the same in every export."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_operator.model.schema import is_name
from ottla_operator.planning.export.names import NAME_SIZE_MAX, object_names


@pytest.mark.parametrize("name", ["orders", "orders.eu-1", "1e3", "y", "null", "a" * NAME_SIZE_MAX])
def test_valid_name_stays(name: str) -> None:
    assert object_names([name]) == {name: name}


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        pytest.param("Orders_EU.v1", "orders-eu.v1", id="letters-and-underscores"),
        pytest.param("..a..-b-.", "a.b", id="empty-parts"),
        pytest.param("__", "x", id="nothing-left"),
        pytest.param("a" * 249, "a" * (NAME_SIZE_MAX - 9), id="too-long"),
        pytest.param("zürich", "z-rich", id="not-ascii"),
    ],
)
def test_other_name_becomes_valid_with_a_digest(name: str, readable: str) -> None:
    found = object_names([name])[name]

    assert found.rpartition("-")[0] == readable
    assert len(found.rpartition("-")[2]) == 8
    assert is_name(found)
    assert len(found) <= NAME_SIZE_MAX


def test_names_that_look_the_same_do_not_collide() -> None:
    found = object_names(["a.b", "a_b", "A.b", "a-b"])

    assert len(set(found.values())) == 4
    assert (found["a.b"], found["a-b"]) == ("a.b", "a-b")
    assert found["a_b"] == object_names(["a_b"])["a_b"], "it does not depend on the others"


def test_name_of_a_digest_that_exists_gets_a_longer_one() -> None:
    usual = object_names(["a_b"])["a_b"]

    found = object_names(["a_b", usual])

    assert found[usual] == usual
    assert found["a_b"].startswith(usual)
    assert len(found["a_b"]) == len(usual) + 8


def test_name_of_another_object_is_not_used() -> None:
    found = object_names(["orders"], taken={"orders"})["orders"]

    assert found.startswith("orders-")


@given(st.sets(st.text(min_size=1, max_size=249), max_size=20))
def test_every_name_has_a_valid_one_of_its_own(names: set[str]) -> None:
    found = object_names(names)

    assert found.keys() == names
    assert len(set(found.values())) == len(names)
    assert all(map(is_name, found.values()))
