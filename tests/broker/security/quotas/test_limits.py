"""Which limit holds for whom, in Kafka's order, and who shares it."""

import pytest

from ottla.metadata.client_quotas import CLIENT_ID, USER
from ottla.security.quotas.limits import Limit, Limits

IN_ORDER: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
    ({USER: "u", CLIENT_ID: "c"}, ("u", "c")),
    ({USER: "u", CLIENT_ID: None}, ("u", "c")),
    ({USER: "u"}, ("u", None)),
    ({USER: None, CLIENT_ID: "c"}, ("u", "c")),
    ({USER: None, CLIENT_ID: None}, ("u", "c")),
    ({USER: None}, ("u", None)),
    ({CLIENT_ID: "c"}, (None, "c")),
    ({CLIENT_ID: None}, (None, "c")),
]


def limits_of(*entities: dict[str, str | None]) -> Limits:
    limits = Limits()
    for rate, entity in enumerate(entities, 1):
        limits.set(frozenset(entity.items()), rate)
    return limits


@pytest.mark.parametrize("first", range(len(IN_ORDER)), ids=[str(entity) for entity, _ in IN_ORDER])
def test_the_first_in_kafkas_order_decides_and_says_who_shares(first: int) -> None:
    limits = limits_of(*(entity for entity, _ in IN_ORDER[first:]))

    assert limits.find("u", "c") == Limit(IN_ORDER[first][1], 1)


@pytest.mark.parametrize(("user", "client_id"), [("other", "c"), ("u", "other"), ("", "c")])
def test_a_limit_for_somebody_is_not_anybody_elses(user: str, client_id: str) -> None:
    assert limits_of({USER: "u", CLIENT_ID: "c"}).find(user, client_id) is None


def test_who_has_no_client_id_falls_under_the_default() -> None:
    assert limits_of({CLIENT_ID: None}).find("u", "") == Limit((None, ""), 1)


def test_a_change_and_a_removal_hold_at_once() -> None:
    limits = limits_of({USER: "u"}, {USER: None})
    assert limits.find("u", "c") == Limit(("u", None), 1)

    limits.set(frozenset({(USER, "u")}), 50)
    assert limits.find("u", "c") == Limit(("u", None), 50)

    limits.set(frozenset({(USER, "u")}), None)
    assert limits.find("u", "c") == Limit(("u", None), 2)

    limits.set(frozenset({(USER, None)}), None)
    assert limits.find("u", "c") is None
    assert not limits


def test_the_memory_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.security.quotas.limits._REMEMBERED_MAX", 3)
    limits = limits_of({CLIENT_ID: None})
    for number in range(10):
        assert limits.find("u", str(number)) == Limit((None, str(number)), 1)

    assert len(limits._remembered) <= 3
