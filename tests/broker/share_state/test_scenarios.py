"""Requests about the state of share-partitions, recorded from JVM Kafka 4.3.1 and compared with ours.

``scenarios/*.txt``: a comment, then blocks of commands, ``----``, and the lines of their responses, in order. ``records
GROUP`` shows all records of a group in the internal topic: they are Kafka's byte for byte.

To rewrite the responses with ours: OTTLA_SCENARIOS=rewrite. To record them from a Kafka that runs with
share.coordinator.snapshot.update.records.per.snapshot=3, share.coordinator.state.topic.num.partitions=3: also
OTTLA_SCENARIOS_BOOTSTRAP=HOST:PORT.
"""

import os
import re
from pathlib import Path

import pytest

from share_brokers import NodeInMemory, RunningKafka, ShareBroker

SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))
BOOTSTRAP = os.environ.get("OTTLA_SCENARIOS_BOOTSTRAP")
REWRITE = os.environ.get("OTTLA_SCENARIOS") == "rewrite"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_responses_are_those_of_kafka(path: Path) -> None:
    header, *blocks = re.split(r"\n\n+", path.read_text().strip())
    broker: ShareBroker = NodeInMemory() if BOOTSTRAP is None else RunningKafka(BOOTSTRAP)
    broker.prepare()

    actual = []
    for block in blocks:
        commands = block.partition("\n----")[0].splitlines()
        lines = [line for command in commands if not command.startswith("#") for line in broker.run(command)]
        actual.append("\n".join([*commands, "----", *lines]))
        if not REWRITE:
            assert actual[-1] == block

    broker.close()
    if REWRITE:
        path.write_text("\n\n".join([header, *actual]) + "\n")
    assert actual
