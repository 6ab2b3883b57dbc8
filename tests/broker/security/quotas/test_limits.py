"""The limit of each client, in Kafka's order, and the clients that share it."""

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
def test_first_limit_in_kafkas_order_applies_and_determines_sharing(first: int) -> None:
    limits = limits_of(*(entity for entity, _ in IN_ORDER[first:]))

    assert limits.find("u", "c") == Limit(IN_ORDER[first][1], 1)


@pytest.mark.parametrize(("user", "client_id"), [("other", "c"), ("u", "other"), ("", "c")])
def test_limit_of_one_client_does_not_apply_to_others(user: str, client_id: str) -> None:
    assert limits_of({USER: "u", CLIENT_ID: "c"}).find(user, client_id) is None


def test_client_without_client_id_has_the_default_limit() -> None:
    assert limits_of({CLIENT_ID: None}).find("u", "") == Limit((None, ""), 1)


def test_change_and_removal_apply_at_once() -> None:
    limits = limits_of({USER: "u"}, {USER: None})
    assert limits.find("u", "c") == Limit(("u", None), 1)

    limits.set(frozenset({(USER, "u")}), 50)
    assert limits.find("u", "c") == Limit(("u", None), 50)

    limits.set(frozenset({(USER, "u")}), None)
    assert limits.find("u", "c") == Limit(("u", None), 2)

    limits.set(frozenset({(USER, None)}), None)
    assert limits.find("u", "c") is None
    assert not limits


def test_cache_of_limits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.security.quotas.limits._CACHED_LIMITS_MAX", 3)
    limits = limits_of({CLIENT_ID: None})
    for number in range(10):
        assert limits.find("u", str(number)) == Limit((None, str(number)), 1)

    assert len(limits._cache) <= 3
