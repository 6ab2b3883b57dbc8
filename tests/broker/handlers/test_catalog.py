"""The catalog agrees with handlers, message definitions and listeners."""

from importlib import import_module

import pytest

from ottla.handlers.api import SERVED, ListenerRole
from ottla.handlers.catalog import CATALOG, CONTROLLER_APIS, CONTROLLER_ONLY_APIS, find, import_handlers, is_served_to
from ottla.wire.messages.registry import ApiKey, request_type, response_type

KEYS = pytest.mark.parametrize("api_key", sorted(CATALOG), ids=lambda key: key.name.lower())
EVERY_KEY = pytest.mark.parametrize("api_key", list(ApiKey), ids=lambda key: key.name.lower())


@KEYS
def test_row_agrees_with_its_handler(api_key: ApiKey) -> None:
    row = CATALOG[api_key]
    import_module(f"ottla.handlers.{row.module}")

    served = SERVED[api_key]

    assert served.api_key == api_key
    assert (served.first_version, served.last_version) == (row.first_version, row.last_version)
    assert row.module == api_key.name.lower()


@KEYS
def test_row_serves_the_versions_of_kafka(api_key: ApiKey) -> None:
    row = CATALOG[api_key]
    request = request_type(api_key)
    last_stable = request.versions.last - request.latest_version_unstable

    assert (row.first_version, row.last_version) == (request.versions.first, last_stable)
    assert response_type(api_key).versions == request.versions


@KEYS
def test_first_to_last_versions_are_found(api_key: ApiKey) -> None:
    row = CATALOG[api_key]

    assert find(api_key, row.first_version) is find(api_key, row.last_version) is SERVED[api_key]
    assert find(api_key, row.first_version - 1) is None
    assert find(api_key, row.last_version + 1) is None


@pytest.mark.parametrize("api_key", [-1, 4, 7, 93, 32_767])
def test_unknown_api_key_is_not_found(api_key: int) -> None:
    assert find(api_key, 0) is None


@EVERY_KEY
def test_listeners_serve_the_apis_of_kafkas_definitions(api_key: ApiKey) -> None:
    served_on = request_type(api_key).served_on

    assert is_served_to(ListenerRole.BROKER, api_key) == ("broker" in served_on)
    assert is_served_to(ListenerRole.CONTROLLER, api_key) == ("controller" in served_on)


def test_apis_of_controllers_only_are_served_by_controllers() -> None:
    assert CONTROLLER_ONLY_APIS < CONTROLLER_APIS


def test_every_handler_is_imported_one_at_a_time() -> None:
    """Without free file descriptors the first request of an API could not import its handler."""
    steps = list(import_handlers())

    assert len(steps) == len(CATALOG)
    assert set(CATALOG) <= set(SERVED)
