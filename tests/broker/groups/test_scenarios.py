"""Requests and responses of a group coordinator, recorded from JVM Kafka 4.3.1 and compared with ours.

``scenarios/*.txt``: a comment (and ``config KEY=VALUE``, ``topic NAME ID``), then blocks of commands, ``----``, and all
responses that result. A command is a client's name, an API and ``key=value`` pairs; ``$a`` stands for the newest member
id of client a (in responses: for its first one; then come ``$a'``, ``$a''``), ``-`` for an empty string. ``advance MS``
advances the clock. With a topic's id Kafka's hash tables have the recorded order.

To rewrite the responses with ours: OTTLA_SCENARIOS=rewrite. To record them from a Kafka that runs with
group.initial.rebalance.delay.ms=500, group.min.session.timeout.ms=100, offsets.topic.num.partitions=4,
transaction.partition.verification.enable=false, the settings of `CoordinatorDriver` for groups of other types (and
minima below them), and the topics t (3 partitions) and u (1), but none that a scenario creates: also
OTTLA_SCENARIOS_BOOTSTRAP=HOST:PORT, and OTTLA_SCENARIOS_CONFIG=KEY=VALUE for the files that have such a ``config``.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from group_drivers import CoordinatorDriver, KafkaDriver
from group_responses import show
from ottla.types import Uuid
from ottla.wire.messages import (
    join_group,
)
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from share_requests import send_command

SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))
BOOTSTRAP = os.environ.get("OTTLA_SCENARIOS_BOOTSTRAP")
CONFIG = os.environ.get("OTTLA_SCENARIOS_CONFIG", "")
REWRITE = os.environ.get("OTTLA_SCENARIOS") == "rewrite"


def blocks(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield (lines before ``----``, responses after it); blocks are separated by blank lines."""
    for block in re.split(r"\n\n+", text.strip()):
        commands, _, responses = block.partition("\n----\n")
        yield commands.removesuffix("\n----").splitlines(), responses


def run_block(commands: list[str], driver: Any) -> str:
    for line in commands:
        if line.startswith("#"):
            continue
        if line.startswith("advance "):
            driver.advance(int(line.split()[1]))
        else:
            send_command(driver, line)
    responses = sorted(driver.responses(), key=lambda response: response[0])
    for client, response in responses:
        if isinstance(response, join_group.JoinGroupResponse | ConsumerGroupHeartbeatResponse) and response.member_id:
            driver.names.learn(client, response.member_id)
    return "\n".join(line for client, response in responses for line in show(client, response, driver.names))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_responses_are_those_of_kafka(path: Path, new_group_node: Callable[..., Any]) -> None:
    text = path.read_text()
    header, _, body = text.partition("\n\n")
    options = {
        key: int(value) if value.isdigit() else value
        for line in header.splitlines()
        if line.startswith("config ")
        for key, value in [line.removeprefix("config ").split("=")]
    }
    is_kafka_set_up = " ".join(f"{key}={value}" for key, value in options.items()) == CONFIG
    if BOOTSTRAP is not None and is_kafka_set_up:
        driver: Any = KafkaDriver(BOOTSTRAP, path.stem)
    else:
        driver = CoordinatorDriver(new_group_node, options)
        for name, topic_id in re.findall(r"^topic (\S+) (\S+)$", header, re.MULTILINE):
            driver.set_topic_id(name, Uuid(bytes.fromhex(topic_id)))
    actual_blocks = []
    for commands, expected in blocks(body):
        responses = run_block(commands, driver)
        actual_blocks.append("\n".join([*commands, "----", responses]).rstrip())
        if not REWRITE:
            assert responses == expected.rstrip(), "\n".join(commands)
    driver.close()
    if REWRITE:
        header = re.sub(
            r"^topic (\S+) .*$",
            lambda line: f"topic {line[1]} {driver.names.topic_ids[line[1]].hex()}",
            header,
            flags=re.MULTILINE,
        )
        path.write_text(header + "\n\n" + "\n\n".join(actual_blocks) + "\n")
    assert actual_blocks
