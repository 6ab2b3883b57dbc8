"""The catalog says in one place what handlers, message definitions and listeners say in many."""

from importlib import import_module

import pytest

from ottla.handlers.api import SERVED, ListenerRole
from ottla.handlers.catalog import CATALOG, CONTROLLER_APIS, CONTROLLER_ONLY_APIS, find, import_handlers, is_served_to
from ottla.wire.messages.registry import ApiKey, request_type, response_type

KEYS = pytest.mark.parametrize("api_key", sorted(CATALOG), ids=lambda key: key.name.lower())
EVERY_KEY = pytest.mark.parametrize("api_key", list(ApiKey), ids=lambda key: key.name.lower())


@KEYS
def test_a_row_agrees_with_its_handler(api_key: ApiKey) -> None:
    row = CATALOG[api_key]
    import_module(f"ottla.handlers.{row.module}")

    served = SERVED[api_key]

    assert served.api_key == api_key
    assert (served.first_version, served.last_version) == (row.first_version, row.last_version)
    assert row.module == api_key.name.lower()


@KEYS
def test_a_row_serves_what_kafka_serves(api_key: ApiKey) -> None:
    row = CATALOG[api_key]
    request = request_type(api_key)
    last_stable = request.versions.last - request.latest_version_unstable

    assert (row.first_version, row.last_version) == (request.versions.first, last_stable)
    assert response_type(api_key).versions == request.versions


@KEYS
def test_versions_are_found_from_the_first_to_the_last(api_key: ApiKey) -> None:
    row = CATALOG[api_key]

    assert find(api_key, row.first_version) is find(api_key, row.last_version) is SERVED[api_key]
    assert find(api_key, row.first_version - 1) is None
    assert find(api_key, row.last_version + 1) is None


@pytest.mark.parametrize("api_key", [-1, 4, 7, 93, 32_767])
def test_a_key_that_kafka_does_not_have_is_not_found(api_key: int) -> None:
    assert find(api_key, 0) is None


@EVERY_KEY
def test_listeners_serve_what_the_definitions_say(api_key: ApiKey) -> None:
    served_on = request_type(api_key).served_on

    assert is_served_to(ListenerRole.BROKER, api_key) == ("broker" in served_on)
    assert is_served_to(ListenerRole.CONTROLLER, api_key) == ("controller" in served_on)


def test_controllers_only_is_a_part_of_controllers() -> None:
    assert CONTROLLER_ONLY_APIS < CONTROLLER_APIS


def test_every_handler_is_imported_one_at_a_time() -> None:
    """Out of descriptors, the first request of a kind could not import its handler."""
    steps = list(import_handlers())

    assert len(steps) == len(CATALOG)
    assert set(CATALOG) <= set(SERVED)
