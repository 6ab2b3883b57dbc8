"""Samples of Users are bounded, and no namespace hides another."""

import pytest

from ottla_operator.model.user_sample import UserSample


@pytest.mark.parametrize(
    ("users", "text"),
    [
        (["a/x"], "User a/x"),
        (["b/y", "a/x"], "2 Users (a/x, b/y)"),
        (["a/1", "a/2", "a/3", "a/4", "z/1"], "5 Users (a/1, z/1, a/2 and 2 more)"),
    ],
)
def test_sample_names_one_of_each_namespace_first(users: list[str], text: str) -> None:
    assert str(UserSample.of(users)) == text


def test_sample_is_read_back() -> None:
    sample = UserSample.of([f"a/{number}" for number in range(9)])

    assert UserSample.parse(sample.document) == sample


@pytest.mark.parametrize("document", [None, [], {}, {"users": "1", "first": []}, {"users": 1, "first": [2]}])
def test_invalid_record_is_empty(document: object) -> None:
    assert UserSample.parse(document) == UserSample()


def test_edited_record_without_names_has_a_text() -> None:
    assert str(UserSample.parse({"users": 1, "first": []})) == "1 Users"
