"""What ``server.properties`` says for one listener: ``listener.name.LISTENER.KEY`` before ``KEY``.

A SASL key may be narrowed to one mechanism: ``listener.name.LISTENER.MECHANISM.KEY``, for which there is no key without
the listener. Listener and mechanism are written in lower case there.
Source: KIP-103, KIP-85; ListenerName.configPrefix and ListenerName.saslMechanismConfigPrefix of Apache Kafka.
"""

from collections.abc import Mapping

from ottla.config.layers import LISTENER_PREFIX


def listener_key(listener: str, key: str, *, mechanism: str | None = None) -> str:
    """Return the key that says something for ``listener`` alone, or for one mechanism there."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{key if mechanism is None else f'{mechanism.lower()}.{key}'}"


def listener_text(properties: Mapping[str, str], listener: str, key: str) -> str | None:
    """Return the text of ``key`` that holds for ``listener``; None where neither place says anything."""
    own = properties.get(listener_key(listener, key))
    return properties.get(key) if own is None else own


def mechanism_text(properties: Mapping[str, str], listener: str, mechanism: str, key: str) -> str | None:
    """Return the text of ``key`` that holds for ``mechanism`` on ``listener``; None where no place says anything."""
    own = properties.get(listener_key(listener, key, mechanism=mechanism))
    return listener_text(properties, listener, key) if own is None else own
