"""kafka-features describe: what the node supports, and what the cluster has finalized."""

import re
from collections.abc import Callable
from typing import Any


def test_features_are_described_at_one_epoch(kafka: Callable[..., Any]) -> None:
    rows = [
        re.fullmatch(
            r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+"
            r"FinalizedVersionLevel: (\S+)\s+Epoch: (\d+)\s*",
            line,
        )
        for line in kafka("kafka-features", "describe").lines
    ]

    assert all(rows)
    features = {row[1]: row.groups()[1:4] for row in rows if row}
    assert features["metadata.version"] == ("3.3-IV3", "4.3-IV0", "4.3-IV0")
    assert features["kraft.version"] == ("0", "1", "1")
    assert {row[5] for row in rows if row} != {"0"}
    assert len({row[5] for row in rows if row}) == 1
