"""Kinds of what can have a configuration of its own, as requests and records name them."""

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The int8 of the config APIs and of ConfigRecord (ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
