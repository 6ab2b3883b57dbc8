"""kafka-configs: dynamic configs of topics and brokers, with the defaults that they hide."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient


@pytest.fixture
def broker_id(admin: AdminClient) -> str:
    return str(next(iter(admin.list_topics(timeout=30).brokers)))


@pytest.fixture
def topic_configs(kafka: Callable[..., Any], new_topic: Callable[..., str]) -> tuple[str, Callable[..., Any]]:
    """A new topic's name, and ``run(*args)`` that alters or describes it."""
    topic = new_topic()
    return topic, lambda *args, **more: kafka(
        "kafka-configs", "--entity-type", "topics", "--entity-name", topic, *args, **more
    )


def test_topic_config_is_set_described_and_reset(topic_configs: tuple[str, Callable[..., Any]]) -> None:
    topic, run = topic_configs
    heading = f"Dynamic configs for topic {topic} are:"
    assert run("--describe").lines == [heading]

    altered = run("--alter", "--add-config", "retention.ms=86400000,cleanup.policy=[compact,delete]")
    shown = run("--describe")

    assert altered.lines == [f"Completed updating config for topic {topic}."]
    assert shown.lines == [
        heading,
        "  cleanup.policy=compact,delete sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000}",
    ]

    run("--alter", "--delete-config", "retention.ms,cleanup.policy")

    assert run("--describe").lines == [heading]


def test_all_configs_of_a_topic_have_kafkas_defaults(topic_configs: tuple[str, Callable[..., Any]]) -> None:
    _, run = topic_configs

    rows = [
        re.match(r"  (\S+?)=(.*) sensitive=false synonyms=\{(.*)\}", line)
        for line in run("--describe", "--all").lines[1:]
    ]

    values = {row[1]: row[2] for row in rows if row}
    assert len(values) == len(rows)
    assert values == {
        "cleanup.policy": "delete",
        "compression.gzip.level": "-1",
        "compression.lz4.level": "9",
        "compression.type": "producer",
        "compression.zstd.level": "3",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "60000",
        "flush.messages": "9223372036854775807",
        "flush.ms": "9223372036854775807",
        "follower.replication.throttled.replicas": "",
        "index.interval.bytes": "4096",
        "leader.replication.throttled.replicas": "",
        "local.retention.bytes": "-2",
        "local.retention.ms": "-2",
        "max.compaction.lag.ms": "9223372036854775807",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        "preallocate": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
        "remote.storage.enable": "false",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0",
        "segment.ms": "604800000",
        "unclean.leader.election.enable": "false",
    }
    synonyms = {row[1]: row[3] for row in rows if row}
    assert synonyms["max.message.bytes"] == "DEFAULT_CONFIG:message.max.bytes=1048588"


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        pytest.param(
            "retention.ms=banana",
            "InvalidConfigurationException: Invalid value banana for configuration retention.ms: "
            "Not a number of type LONG",
            id="not-a-number",
        ),
        pytest.param(
            "retention.ms=-2",
            "InvalidConfigurationException: Invalid value -2 for configuration retention.ms: Value must be at least -1",
            id="below-the-bound",
        ),
        pytest.param(
            "cleanup.policy=shred",
            "InvalidConfigurationException: Invalid value shred for configuration cleanup.policy: "
            "String must be one of: compact, delete",
            id="not-in-the-list",
        ),
        pytest.param(
            "no.such=1", "InvalidConfigurationException: Unknown topic config name: no.such", id="unknown-name"
        ),
    ],
)
def test_invalid_topic_config_is_rejected_and_changes_nothing(
    topic_configs: tuple[str, Callable[..., Any]], setting: str, error: str
) -> None:
    topic, run = topic_configs

    rejected = run("--alter", "--add-config", setting, code=1)

    assert f"org.apache.kafka.common.errors.{error}" in rejected.stderr
    assert run("--describe").lines == [f"Dynamic configs for topic {topic} are:"]


def test_missing_topic_has_no_configs(kafka: Callable[..., Any], unique: Callable[[str], str]) -> None:
    name = unique("missing")

    shown = kafka("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", name)

    assert shown.lines == [f"The topic '{name}' doesn't exist and doesn't have dynamic config."]


class TestBrokerConfigs:
    @pytest.fixture
    def run(self, kafka: Callable[..., Any], broker_id: str) -> Iterator[Callable[..., Any]]:
        def on_broker(*args: str, **more: Any) -> Any:
            return kafka("kafka-configs", "--entity-type", "brokers", "--entity-name", broker_id, *args, **more)

        yield on_broker
        on_broker("--alter", "--delete-config", "log.retention.ms")

    def test_dynamic_config_hides_the_default(
        self, run: Callable[..., Any], broker_id: str, eventually: Callable[..., Any]
    ) -> None:
        altered = run("--alter", "--add-config", "log.retention.ms=1234567")

        assert altered.lines == [f"Completed updating config for broker {broker_id}."]
        # The controller has the record before the broker acts on it.
        eventually(lambda: "log.retention.ms=1234567" in run("--describe").lines[1])
        assert run("--describe").lines == [
            f"Dynamic configs for broker {broker_id} are:",
            "  log.retention.ms=1234567 sensitive=false "
            "synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=1234567, DEFAULT_CONFIG:log.retention.hours=168}",
        ]

    def test_broker_config_becomes_the_default_of_topics(
        self,
        run: Callable[..., Any],
        topic_configs: tuple[str, Callable[..., Any]],
        eventually: Callable[..., Any],
    ) -> None:
        run("--alter", "--add-config", "log.retention.ms=1234567")

        line = "  retention.ms=1234567 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=1234567"
        eventually(lambda: line in topic_configs[1]("--describe", "--all").stdout)

    def test_static_config_cannot_be_changed_at_run_time(self, run: Callable[..., Any]) -> None:
        rejected = run("--alter", "--add-config", "log.dirs=/elsewhere", code=1)

        assert "InvalidRequestException: Cannot update these configs dynamically: [log.dirs]" in rejected.stderr

    def test_only_its_own_directories_are_cordoned(self, run: Callable[..., Any]) -> None:
        rejected = run("--alter", "--add-config", "cordoned.log.dirs=/nope", code=1)

        assert "must be present in log.dirs or log.dir. Missing entries : /nope" in rejected.stderr
        assert "InvalidRequestException" in rejected.stderr

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ("num.io.threads=17", "num.io.threads=17, value should not be greater than double the current value 8"),
            ("num.io.threads=3", "num.io.threads=3, value should be at least half the current value 8"),
            ("log.cleaner.threads=3", "threads cannot be increased to more than double the current value 1"),
        ],
    )
    def test_thread_count_is_at_most_doubled_or_halved(self, run: Callable[..., Any], change: str, why: str) -> None:
        rejected = run("--alter", "--add-config", change, code=1)

        assert why in rejected.stderr
        assert "InvalidRequestException" in rejected.stderr

    def test_all_configs_are_shown_with_their_source(self, run: Callable[..., Any]) -> None:
        lines = run("--describe", "--all").lines

        assert (
            "  auto.create.topics.enable=true sensitive=false synonyms={DEFAULT_CONFIG:auto.create.topics.enable=true}"
            in lines
        )
        assert any(
            re.match(r"  log\.dirs=\S+ sensitive=false synonyms=\{STATIC_BROKER_CONFIG:log\.dirs=", line)
            for line in lines
        )


def test_cluster_wide_default_of_brokers_is_set_and_taken_back(
    kafka: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    def run(*args: str) -> Any:
        return kafka("kafka-configs", "--entity-type", "brokers", "--entity-default", *args)

    altered = run("--alter", "--add-config", "message.max.bytes=2000000")

    line = (
        "  message.max.bytes=2000000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000000}"
    )
    assert altered.lines == ["Completed updating default config for brokers in the cluster."]
    eventually(lambda: line in run("--describe").lines)
    assert run("--describe").lines[0] == "Default configs for brokers in the cluster are:"

    run("--alter", "--delete-config", "message.max.bytes")

    eventually(lambda: "message.max.bytes" not in run("--describe").stdout)
