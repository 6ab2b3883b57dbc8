"""Settings become options of Spark and of the Kafka client."""

import pytest

from ottla_spark.settings import AVAILABLE_NOW, PipelineSettings


def settings(**changes: object) -> PipelineSettings:
    required = {"bootstrap_servers": "h:1", "table_root": "tables", "checkpoint_root": "checkpoints"}
    return PipelineSettings(**(required | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trigger", "options"),
    [
        pytest.param(AVAILABLE_NOW, {"availableNow": True}, id="all-there-is"),
        pytest.param("10 seconds", {"processingTime": "10 seconds"}, id="an-interval"),
    ],
)
def test_trigger_becomes_spark_s_argument(trigger: str, options: dict[str, object]) -> None:
    assert settings(trigger=trigger).trigger_options() == options


@pytest.mark.parametrize("root", ["tables", "tables/", "s3a://bucket/tables/"])
def test_tables_lie_under_their_root(root: str) -> None:
    assert settings(table_root=root).table("gold") == root.rstrip("/") + "/gold"


def test_client_options_carry_spark_s_prefix() -> None:
    options = settings(kafka_options={"security.protocol": "SSL"}).client_options()

    assert options == {"kafka.bootstrap.servers": "h:1", "kafka.security.protocol": "SSL"}
