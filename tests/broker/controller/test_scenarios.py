"""Changes of partitions while brokers fail and return, as scripts.

``scenarios/*.txt``: comments, then blocks of commands, ``----``, and their outcome: each rejection, and each partition
that differs from its state before the block. Commands:

    brokers 1 2 3                    register and unfence them
    directories 1 2 3                the same, with two log directories each
    topic t 1,2,3 2,3,1 KEY=VALUE    create a topic with these replicas and settings
    fence 1 | unfence 1              as by a session timeout, and by its next heartbeat
    heartbeat 1                      the broker is alive and has applied all metadata
    restart 1 clean | unclean        a new incarnation of a fenced broker; clean brings its last epoch
    restart 1 wiped                  likewise, with an empty disk
    shutdown 1                       controlled shutdown, as far as it goes
    isr t-0 1,2                      the leader proposes this in-sync set
    reassign t-0 4,5,6               (``reassign t-0 4,5 keep`` keeps the number of replicas)
    cancel t-0
    elect preferred|unclean t-0
    config topic t KEY=VALUE         (``KEY=`` removes it; ``config cluster KEY=VALUE`` is every broker's)
    feature NAME LEVEL
    unregister 1
    offline 1                        the broker's first log directory fails
    put t-0 1 0                      broker 1 reports its first log directory for its replica
    wait MS                          and tick
    failover                         another controller takes over

To rewrite the outcomes: OTTLA_SCENARIOS=rewrite. Review the differences before you commit them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.types import Uuid
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))
REWRITE = os.environ.get("OTTLA_SCENARIOS") == "rewrite"


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def place(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def error_lines(error_code: int, message: str | None = None) -> list[str]:
    if error_code == ErrorCode.NONE:
        return []
    return [ErrorCode(error_code).name + (f": {message}" if message else "")]


def format_partition(partition: PartitionRegistration) -> str:
    def listed(name: str, members: tuple[int, ...]) -> str:
        return f" {name}={','.join(map(str, members))}" if members else ""

    leader = partition.leader if partition.has_leader else "none"
    text = f"replicas={','.join(map(str, partition.replicas))} isr={','.join(map(str, partition.isr)) or 'none'}"
    text += f" leader={leader} epoch={partition.leader_epoch}/{partition.partition_epoch}"
    text += listed("adding", partition.adding_replicas) + listed("removing", partition.removing_replicas)
    text += listed("elr", partition.elr) + listed("last", partition.last_known_elr)
    return text + (" recovering" if partition.leader_recovery_state else "")


class Script:
    """Runs the commands of one scenario."""

    def __init__(self, new_cluster: Callable[..., Any]) -> None:
        self.cluster = new_cluster(controllers=2, leader_imbalance_check_interval_ms=1_000)
        self.before: dict[str, str] = {}

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        outcome: list[str] | None = getattr(self, command)(*words)
        return outcome or []

    def changes(self) -> list[str]:
        now = {
            f"{name}-{number}": format_partition(partition)
            for name, topic in sorted(self.cluster.image.topics.by_name.items())
            for number, partition in sorted(topic.partitions.items())
        }
        lines = [f"{where} {text}" for where, text in now.items() if self.before.get(where) != text]
        self.before = now
        return lines

    def brokers(self, *words: str) -> None:
        self.cluster.add_brokers(*(int(word) for word in words))

    def directories(self, *words: str) -> None:
        self.cluster.add_brokers(*(int(word) for word in words), directories=2)

    def put(self, where: str, broker: str, index: str) -> list[str]:
        topic, partition = place(where)
        directory = Uuid(bytes([int(broker) + 100 + 50 * int(index)]) * 16)
        return error_lines(self.cluster.put(topic, int(broker), directory, partition))

    def topic(self, name: str, *words: str) -> None:
        configs = dict(word.split("=") for word in words if "=" in word)
        self.cluster.assign(name, *(numbers(word) for word in words if "=" not in word), **configs)

    def fence(self, broker: str) -> None:
        self.cluster.fence(int(broker))

    def unfence(self, broker: str) -> None:
        self.cluster.unfence(int(broker))

    def heartbeat(self, broker: str) -> None:
        self.cluster.ask(self.cluster.heartbeat(int(broker)))

    def restart(self, broker: str, how: str) -> None:
        directories = [Uuid(bytes([int(broker) + 200]) * 16)] if how == "wiped" else None
        self.cluster.restart_broker(int(broker), clean=how == "clean", directories=directories)

    def shutdown(self, broker: str) -> list[str]:
        for _ in range(3):
            for other in self.cluster.image.cluster.brokers.values():
                if other.is_active and other.broker_id != int(broker):
                    self.cluster.ask(self.cluster.heartbeat(other.broker_id))
            response = self.cluster.ask(self.cluster.heartbeat(int(broker), want_shut_down=True))
            if response.should_shut_down:
                return ["shut down"]
        return ["goes on"]

    def isr(self, where: str, members: str) -> list[str]:
        topic, partition = place(where)
        return error_lines(self.cluster.alter_partition(topic, numbers(members), partition).error_code)

    def reassign(self, where: str, replicas: str, *keep: str) -> list[str]:
        topic, partition = place(where)
        response = self.cluster.reassign(topic, numbers(replicas), partition, allow_replication_factor_change=not keep)
        return error_lines(response.error_code, response.error_message)

    def cancel(self, where: str) -> list[str]:
        topic, partition = place(where)
        response = self.cluster.reassign(topic, None, partition)
        return error_lines(response.error_code, response.error_message)

    def elect(self, how: str, where: str) -> list[str]:
        topic, partition = place(where)
        request = ElectLeadersRequest(
            election_type={"preferred": 0, "unclean": 1}[how],
            topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])],
        )
        return error_lines(self.cluster.ask(request).replica_election_results[0].partition_result[0].error_code)

    def config(self, kind: str, *words: str) -> list[str]:
        resource_type = ConfigResourceType.TOPIC if kind == "topic" else ConfigResourceType.BROKER
        key, _, value = words[-1].partition("=")
        response = self.cluster.configure(resource_type, words[0] if kind == "topic" else "", key, value or None)
        self.cluster.tick()
        return error_lines(response.error_code, response.error_message)

    def feature(self, name: str, level: str) -> list[str]:
        update = FeatureUpdateKey(feature=name, max_version_level=int(level), upgrade_type=1 if int(level) else 2)
        response = self.cluster.ask(UpdateFeaturesRequest(feature_updates=[update]))
        return error_lines(response.error_code, response.error_message)

    def unregister(self, broker: str) -> list[str]:
        return error_lines(self.cluster.ask(UnregisterBrokerRequest(broker_id=int(broker))).error_code)

    def offline(self, broker: str) -> list[str]:
        directories = list(self.cluster.broker_of(int(broker)).directories)
        return error_lines(
            self.cluster.ask(self.cluster.heartbeat(int(broker), offline_log_dirs=directories[:1])).error_code
        )

    def wait(self, milliseconds: str) -> None:
        self.cluster.wait(int(milliseconds))

    def failover(self) -> None:
        leader_id = self.cluster.log.leader.leader_id
        self.cluster.elect(next(each for each in self.cluster.controllers if each != leader_id))


def replay_scenario(text: str, script: Script) -> str:
    """Return the scenario with the actual outcomes in place of the recorded ones."""
    lines: list[str] = []
    commands: list[str] = []
    in_outcome = False
    for line in text.splitlines():
        if line == "----":
            outcome = [response for command in commands for response in script.run(command)]
            lines += ["----", *outcome, *script.changes()]
            commands, in_outcome = [], True
        elif not line.strip() or line.startswith("#"):
            in_outcome = in_outcome and bool(line.strip())
            lines.append(line)
        elif not in_outcome:
            commands.append(line)
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_has_the_recorded_outcome(new_cluster: Callable[..., Any], path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    outcome = replay_scenario(text, Script(new_cluster))

    if REWRITE:
        path.write_text(outcome, encoding="utf-8")
    assert outcome == (outcome if REWRITE else text)
