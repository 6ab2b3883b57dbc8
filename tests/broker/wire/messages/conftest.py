"""Third-party codecs as oracles: kio and kafka-python; Kafka's own classes are in `jvm`."""

import warnings
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(scope="session")
def kafka_python_types() -> dict[str, Any]:
    """kafka-python's message classes by Kafka's names; importing them warns about its own use of importlib."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        modules = [
            import_module(f"kafka.protocol.{name}") for name in ("admin", "consumer", "metadata", "producer", "sasl")
        ]
        modules.append(import_module("kafka.protocol.api_header"))
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and getattr(value, "_struct", None) is not None
    }
