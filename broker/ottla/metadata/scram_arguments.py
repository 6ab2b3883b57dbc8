"""``--add-scram`` of formatting: the initial SCRAM credentials of a new cluster (KIP-900).

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=bob,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3p6",saltedpassword="mT0yyUUxnlJaC99HXg..."]

Errors name the defect and show no secret.
Source: ScramParser of Apache Kafka 4.3.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Final

from ottla.errors import ConfigurationError
from ottla.metadata.records import MetadataRecord
from ottla.metadata.scram import ScramUser, scram_record
from ottla.sasl.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramMechanism,
    credential,
    new_salt,
    salted_password,
)

_KEYS: Final = ("name", "password", "salt", "iterations", "saltedpassword")


def scram_records(arguments: Sequence[str], randrange: Callable[[int], int]) -> list[MetadataRecord]:
    """Return the records that set the credentials of ``arguments``; ``randrange`` generates salts that are not given.

    Raises:
        ConfigurationError: an argument is of another form; with Kafka's message unless that shows a secret.
    """
    return [_record(argument.strip(), randrange) for argument in arguments]


def _record(argument: str, randrange: Callable[[int], int]) -> MetadataRecord:
    mechanism_name, equals, settings = argument.partition("=")
    if not equals:
        raise ConfigurationError(
            "Failed to find equals sign in SCRAM argument: it is MECHANISM=[name=...,password=...]"
        )
    mechanism = SCRAM_MECHANISMS.get(mechanism_name)
    if mechanism is None:
        raise ConfigurationError(f"The add-scram mechanism {mechanism_name} is not supported.")
    for found, word, sign in ((settings.startswith("["), "start", "["), (settings.endswith("]"), "end", "]")):
        if not found:
            raise ConfigurationError(f"Expected configuration string to {word} with {sign}")
    values = _read(settings[1:-1])
    if "name" not in values:
        raise ConfigurationError("You must supply 'name' to add-scram")
    iterations = _iterations(mechanism, values.get("iterations"))
    salt = _base64("salt", values["salt"]) if "salt" in values else new_salt(randrange)
    if "password" in values:
        salted = salted_password(mechanism, values["password"], salt, iterations)
    elif "saltedpassword" not in values:
        raise ConfigurationError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif "salt" not in values:
        raise ConfigurationError("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _base64("saltedPassword", values["saltedpassword"])
    return scram_record(ScramUser(mechanism, values["name"]), credential(mechanism, salted, salt, iterations))


def _read(settings: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for position, component in enumerate(settings.split(","), 1):
        key, equals, value = component.partition("=")
        if not equals:
            raise ConfigurationError(f"No equals sign found in SCRAM component number {position}")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        values[key] = value[1:-1] if is_quoted else value
    unknown = sorted(set(values) - set(_KEYS))
    if unknown:
        raise ConfigurationError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return values


def _iterations(mechanism: ScramMechanism, text: str | None) -> int:
    if text is None:
        return ITERATIONS_MIN
    try:
        iterations = int(text)
    except ValueError:
        raise ConfigurationError(f"Failed to parse iterations count: {text}") from None
    for is_wrong, sign, bound in (
        (iterations < ITERATIONS_MIN, ">=", ITERATIONS_MIN),
        (iterations > ITERATIONS_MAX, "<=", ITERATIONS_MAX),
    ):
        if is_wrong:
            raise ConfigurationError(
                f"The 'iterations' value must be {sign} {bound} for add-scram using {mechanism.name}"
            )
    return iterations


def _base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise ConfigurationError(f"Failed to decode given {name}: it is to be base64") from None
