"""Our tables compared with Kafka's own definitions, key by key, value by value, message by message.

Runs where ``OTTLA_KAFKA_LIBS`` names a folder with Kafka's jars, and a JDK is there to compile one small file.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.config.broker_keys import AUTHORIZER_KEYS, BROKER_KEYS, OAUTH_KEYS, OTTLA_KEYS
from ottla.config.group_keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from ottla.config.key import ConfigKey, Dynamic, InvalidConfigError, format_value, parse_value
from ottla.config.topic_keys import SYNONYMS, TOPIC_KEYS

KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS")
pytestmark = pytest.mark.skipif(
    KAFKA_LIBS is None or shutil.which("javac") is None,
    reason="OTTLA_KAFKA_LIBS names no folder of Kafka's jars, or there is no JDK",
)

OURS: dict[str, dict[str, ConfigKey]] = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client-metrics": CLIENT_METRICS_KEYS,
}

# Keys that only a running broker has (quotas that are set dynamically), and keys with other messages in `validation`.
DYNAMIC_ONLY = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
CHECKED_ELSEWHERE = {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}
# Java names these classes; the values cannot be loaded here.
CLASS_MESSAGE = "could not be found"


@pytest.fixture(scope="module")
def kafka_definitions() -> list[list[str]]:
    """Return the lines of PrintConfigDefs, split."""
    source = Path(__file__).with_name("PrintConfigDefs.java")
    ran = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIBS}/*", str(source)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return [line.split("\t") for line in ran.stdout.splitlines()]


def test_keys_types_and_defaults_are_kafkas(kafka_definitions: list[list[str]]) -> None:
    theirs = {(row[1], row[2]): tuple(row[3:]) for row in kafka_definitions if row[0] == "key"}
    ours = {
        (kind, key.name): (
            key.type.name,
            "<none>" if key.default is None else key.default,
            str(key.is_unlisted).lower(),
        )
        for kind, keys in OURS.items()
        for key in keys.values()
        if key.name not in OTTLA_KEYS | AUTHORIZER_KEYS | OAUTH_KEYS and key.name not in DYNAMIC_ONLY
    }

    assert ours == theirs


def test_every_value_is_validated_as_in_kafka(kafka_definitions: list[list[str]]) -> None:
    different = []
    for row in kafka_definitions:
        if row[0] != "value" or row[2] in CHECKED_ELSEWHERE or CLASS_MESSAGE in row[4]:
            continue
        _, kind, name, text, theirs = row
        try:
            parse_value(OURS[kind][name], text)
            ours = "ok"
        except InvalidConfigError as error:
            ours = error.message or ""
        if ours != theirs:
            different.append((name, text, ours, theirs))

    assert not different, "\n".join(map(str, different))


def test_same_keys_are_dynamic_as_in_kafka(kafka_definitions: list[list[str]]) -> None:
    theirs = {row[1]: row[2] for row in kafka_definitions if row[0] == "dynamic"}
    ours = {name: key.dynamic.value for name, key in BROKER_KEYS.items() if key.dynamic is not Dynamic.READ_ONLY}

    assert ours == theirs


def test_topics_inherit_from_the_same_keys_as_in_kafka(kafka_definitions: list[list[str]]) -> None:
    theirs: dict[str, list[tuple[str, str]]] = {}
    for row in kafka_definitions:
        if row[0] == "synonym":
            theirs.setdefault(row[1], []).append((row[2], row[3]))

    ours = {
        name: [(key, str(factor)) for key, factor in keys] for name, keys in SYNONYMS.items() if name not in OTTLA_KEYS
    }

    assert ours == theirs


def test_every_default_is_shown_as_in_kafka(kafka_definitions: list[list[str]]) -> None:
    theirs = {(row[1], row[2]): row[4] for row in kafka_definitions if row[0] == "key" and row[4] != "<none>"}
    ours = {
        where: format_value(parse_value(OURS[where[0]][where[1]], OURS[where[0]][where[1]].default)) for where in theirs
    }

    assert ours == theirs
