"""A key for one listener, or for one mechanism of it, takes precedence over the key alone."""

import pytest

from ottla.config.listener_overrides import listener_text, mechanism_text

PROPERTIES = {
    "ssl.client.auth": "none",
    "listener.name.outside.ssl.client.auth": "required",
    "sasl.jaas.config": "for all",
    "listener.name.outside.sasl.jaas.config": "for the listener",
    "listener.name.outside.scram-sha-256.sasl.jaas.config": "for the mechanism",
}


@pytest.mark.parametrize(
    ("listener", "key", "text"),
    [
        pytest.param("OUTSIDE", "ssl.client.auth", "required", id="its-own"),
        pytest.param("INSIDE", "ssl.client.auth", "none", id="that-of-all"),
        pytest.param("INSIDE", "ssl.keystore.location", None, id="nowhere"),
    ],
)
def test_key_of_a_listener_takes_precedence(listener: str, key: str, text: str | None) -> None:
    assert listener_text(PROPERTIES, listener, key) == text


@pytest.mark.parametrize(
    ("listener", "mechanism", "text"),
    [
        pytest.param("OUTSIDE", "SCRAM-SHA-256", "for the mechanism", id="its-own"),
        pytest.param("OUTSIDE", "PLAIN", "for the listener", id="the-listeners"),
        pytest.param("INSIDE", "PLAIN", "for all", id="that-of-all"),
    ],
)
def test_key_of_a_mechanism_takes_precedence(listener: str, mechanism: str, text: str) -> None:
    assert mechanism_text(PROPERTIES, listener, mechanism, "sasl.jaas.config") == text
