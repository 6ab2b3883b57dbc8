"""Overrides of keys for one listener: ``listener.name.LISTENER.KEY`` takes precedence over ``KEY``.

A SASL key may be set for one mechanism of a listener, ``listener.name.LISTENER.MECHANISM.KEY``, but not for a mechanism
on all listeners. Listener and mechanism are in lower case in these keys.
Source: KIP-103, KIP-85; ListenerName.configPrefix and ListenerName.saslMechanismConfigPrefix of Apache Kafka.
"""

from collections.abc import Mapping

from ottla.config.layers import LISTENER_PREFIX


def listener_key(listener: str, key: str, *, mechanism: str | None = None) -> str:
    """Return the name of ``key`` for ``listener`` alone, or for one mechanism of it."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{key if mechanism is None else f'{mechanism.lower()}.{key}'}"


def listener_text(properties: Mapping[str, str], listener: str, key: str) -> str | None:
    """Return the raw value of ``key`` for ``listener``; None if it is not set."""
    own = properties.get(listener_key(listener, key))
    return properties.get(key) if own is None else own


def mechanism_text(properties: Mapping[str, str], listener: str, mechanism: str, key: str) -> str | None:
    """Return the raw value of ``key`` for ``mechanism`` on ``listener``; None if it is not set."""
    own = properties.get(listener_key(listener, key, mechanism=mechanism))
    return listener_text(properties, listener, key) if own is None else own
