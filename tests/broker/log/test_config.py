"""A log's configuration: Kafka's defaults, and invalid values."""

from dataclasses import replace

import pytest

from ottla.errors import ConfigurationError
from ottla.log.config import LogConfig


def test_defaults_are_those_of_kafka() -> None:
    config = LogConfig()

    assert (config.segment_bytes, config.segment_ms, config.retention_ms) == (1_073_741_824, 604_800_000, 604_800_000)
    assert (config.max_message_bytes, config.index_interval_bytes) == (1_048_588, 4096)
    assert (config.is_deleted, config.is_compacted) == (True, False)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, False, id="defaults"),
        pytest.param({"cleanup_policy": frozenset({"compact"})}, True, id="keys-are-needed"),
        pytest.param({"message_timestamp_before_max_ms": 1}, True, id="age-is-limited"),
        pytest.param(
            {"message_timestamp_before_max_ms": 1, "message_timestamp_type": "LogAppendTime"}, False, id="no-age"
        ),
    ],
)
def test_records_are_validated_for_compaction_and_for_old_timestamps(
    settings: dict[str, object], expected: bool
) -> None:
    assert LogConfig(**settings).validates_records is expected  # type: ignore[arg-type]
    assert replace(LogConfig(), **settings).validates_records is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"cleanup_policy": frozenset({"shred"})}, id="unknown-policy"),
        pytest.param({"segment_bytes": 0}, id="no-room"),
        pytest.param({"segment_bytes": 2**31}, id="positions-beyond-int32"),
    ],
)
def test_invalid_value_is_rejected(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        LogConfig(**settings)  # type: ignore[arg-type]
