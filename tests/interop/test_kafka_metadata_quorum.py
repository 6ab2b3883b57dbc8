"""kafka-metadata-quorum describe: the quorum of one names its leader, and its high watermark follows its log."""

import json
from collections.abc import Callable
from typing import Any


def test_status_names_the_leader_and_the_voters(kafka: Callable[..., Any]) -> None:
    shown = kafka("kafka-metadata-quorum", "describe", "--status")

    fields = dict(line.split(":", 1) for line in shown.lines)
    values = {name: text.strip() for name, text in fields.items()}
    assert list(values) == [
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    ]
    assert len(values["ClusterId"]) == 22
    assert int(values["LeaderEpoch"]) >= 1
    assert int(values["HighWatermark"]) > 0
    assert (values["MaxFollowerLag"], values["MaxFollowerLagTimeMs"]) == ("0", "0")
    voters = json.loads(values["CurrentVoters"])
    assert [str(voter["id"]) for voter in voters] == [values["LeaderId"]]
    assert len(voters[0]["directoryId"]) == 22
    assert voters[0]["endpoints"][0].startswith("CONTROLLER://")
    assert values["CurrentObservers"] == "[]"


def test_replication_shows_the_leader_without_lag(kafka: Callable[..., Any]) -> None:
    header, leader = kafka("kafka-metadata-quorum", "describe", "--replication").rows

    assert header == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ]
    row = dict(zip(header, leader, strict=True))
    assert (row["Lag"], row["Status"]) == ("0", "Leader")
    assert int(row["LogEndOffset"]) > 0
    assert row["LastFetchTimestamp"] == row["LastCaughtUpTimestamp"]


def test_new_topic_moves_the_high_watermark(kafka: Callable[..., Any], new_topic: Callable[..., str]) -> None:
    def high_watermark() -> int:
        lines = kafka("kafka-metadata-quorum", "describe", "--status").lines
        return int(next(line for line in lines if line.startswith("HighWatermark:")).split()[1])

    before = high_watermark()
    new_topic(partitions=5)

    # One TopicRecord and five PartitionRecords.
    assert high_watermark() >= before + 6
