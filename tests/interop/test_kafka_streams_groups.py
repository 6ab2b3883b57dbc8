"""Streams groups (KIP-1071): a Kafka Streams application with group.protocol=streams, and tools for its group."""

import json
import os
import random
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tool_host import PROGRAM_FLAGS

HERE = Path(__file__).parent
GROUPS = "kafka-streams-groups"
PARTITIONS = 2
SEED = 71
WORDS = [f"word-{number}" for number in range(20)]
SETTINGS = ("group.protocol=streams", "replication.factor=1", "consumer.session.timeout.ms=")
"""The last one: the session timeout of a member is the broker's."""
STARTS_S = 60
SESSION_S = 45
"""group.streams.min.session.timeout.ms: what a killed instance is missed for."""


class Application:
    """Instances of CountWords.java, which count the words of a topic; each in a JVM of its own."""

    def __init__(self, bootstrap: str, name: str, directory: Path, admin: AdminClient) -> None:
        home = Path(os.environ["OTTLA_KAFKA_LIBS"]).parent
        program = HERE / "five_nodes" / "CountWords.java"
        self.name = name
        self.repartition, self.changelog = f"{name}-by-word-repartition", f"{name}-counts-changelog"
        self.sent: Counter[str] = Counter()
        self._choices = random.Random(SEED)
        self._directory = directory
        self._instances: list[subprocess.Popen[bytes]] = []
        self._command = [
            "java",
            *PROGRAM_FLAGS,
            "-cp",
            f"{home}/ecosystem/*:{home}/libs/*",
            str(program),
            bootstrap,
            name,
        ]
        wanted = [NewTopic(f"{name}-{end}", num_partitions=PARTITIONS, replication_factor=1) for end in ("in", "out")]
        for created in admin.create_topics(wanted).values():
            created.result(timeout=30)

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more instance."""
        number = len(self._instances)
        with self._output(number).open("wb") as output:
            command = [*self._command, str(self._directory / f"state-{number}"), *SETTINGS]
            self._instances.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        return self._instances[-1]

    def runs(self, number: int = 0) -> bool:
        """Return whether an instance has its tasks."""
        said = self._output(number).read_text()
        assert self._instances[number].poll() is None, said
        return "state RUNNING" in said

    def send(self, produce: Callable[..., Any], count: int) -> None:
        words = self._choices.choices(WORDS, k=count)
        produce(f"{self.name}-in", [word.encode() for word in words])
        self.sent.update(words)

    def stop(self) -> None:
        """End every instance by SIGTERM, which leaves the group."""
        for process in self._instances:
            process.terminate()
        for process in self._instances:
            process.wait(timeout=STARTS_S)

    def kill(self) -> None:
        for process in self._instances:
            process.kill()
            process.wait()

    def _output(self, number: int) -> Path:
        return self._directory / f"output-{number}"


@pytest.fixture
def application(
    broker: Any, kafka: Callable[..., Any], admin: AdminClient, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Application]:
    """An application without an instance so far, whose group assigns tasks without a delay."""
    if not any((Path(os.environ["OTTLA_KAFKA_LIBS"]).parent / "ecosystem").glob("kafka-streams-[0-9]*.jar")):
        pytest.skip("the folder beside OTTLA_KAFKA_LIBS, ecosystem, does not have Kafka Streams")
    if shutil.which("javac") is None:
        pytest.skip("no JDK (javac) on the path to compile the program with")
    name = unique("words")
    set_group(kafka, name, "streams.initial.rebalance.delay.ms=0,streams.assignment.interval.ms=0")
    created = Application(broker.bootstrap, name, tmp_path, admin)
    yield created
    created.kill()
    topics = [f"{name}-in", f"{name}-out", created.repartition, created.changelog]
    for deleted in admin.delete_topics(topics).values():
        deleted.exception(timeout=30)


@pytest.fixture
def stopped(
    application: Application, produce: Callable[..., Any], counted: Callable[..., Any], eventually: Any
) -> Application:
    """The application after it has counted 50 words, without instances."""
    application.start()
    eventually(application.runs, STARTS_S)
    application.send(produce, 50)
    counted(application)
    application.stop()
    return application


@pytest.fixture
def counted(consume: Callable[..., Any]) -> Callable[[Application], None]:
    """Return a function that waits until each word that was sent has been counted once."""

    def check(application: Application) -> None:
        total = application.sent.total()
        counts: defaultdict[str, list[int]] = defaultdict(list)
        for record in consume(f"{application.name}-out", total, {"isolation.level": "read_committed"}):
            counts[record.key().decode()].append(int(record.value()))
        assert counts == {word: [*range(1, count + 1)] for word, count in application.sent.items()}

    return check


@pytest.fixture
def ottla(run: Callable[..., Any], broker: Any) -> Callable[..., Any]:
    """Return a function that runs an `ottla` command line against the node."""
    return lambda *arguments: run(*arguments, "-b", broker.bootstrap)


def set_group(kafka: Callable[..., Any], group: str, settings: str) -> None:
    kafka("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", settings)


def tasks_of(ottla: Callable[..., Any], group: str) -> list[dict[str, Any]]:
    """Return the tasks of each member, as `ottla group members` shows them."""
    described = ottla("group", "members", group, "-o", "json")
    # There is no group before the first member joins.
    members: list[dict[str, Any]] = json.loads(described.out) if described.code == 0 else []
    return members


def all_tasks(members: list[dict[str, Any]], kind: str) -> list[str]:
    return sorted(task for member in members for task in member[kind])


TASKS = [f"{subtopology}_{partition}" for subtopology in range(2) for partition in range(PARTITIONS)]


def test_one_instance_counts_over_internal_topics_that_the_broker_creates(
    application: Application,
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    produce: Callable[..., Any],
    counted: Callable[[Application], None],
    eventually: Any,
) -> None:
    application.start()
    eventually(application.runs, STARTS_S)
    application.send(produce, 500)
    counted(application)

    described = {
        topic: kafka("kafka-topics", "--describe", "--topic", topic).stdout
        for topic in (application.repartition, application.changelog)
    }
    (member,) = tasks_of(ottla, application.name)
    assert all("PartitionCount: 2" in text for text in described.values())
    assert "cleanup.policy=compact" in described[application.changelog]
    assert "cleanup.policy=delete" in described[application.repartition]
    assert (member["activeTasks"], member["standbyTasks"], member["warmupTasks"]) == (TASKS, [], [])
    assert json.loads(ottla("group", "describe", application.name, "-o", "json").out)["state"] == "Stable"


@pytest.mark.timeout(240)
def test_second_instance_takes_tasks_and_all_of_them_when_the_first_is_killed(
    application: Application,
    ottla: Callable[..., Any],
    produce: Callable[..., Any],
    counted: Callable[[Application], None],
    eventually: Any,
) -> None:
    first = application.start()
    eventually(application.runs, STARTS_S)
    application.send(produce, 100)
    application.start()
    eventually(lambda: is_balanced(tasks_of(ottla, application.name)), STARTS_S)
    application.send(produce, 100)
    counted(application)

    first.kill()
    first.wait()
    application.send(produce, 100)
    eventually(lambda: len(tasks_of(ottla, application.name)) == 1, SESSION_S + STARTS_S)
    counted(application)

    (member,) = tasks_of(ottla, application.name)
    assert member["activeTasks"] == TASKS


def is_balanced(members: list[dict[str, Any]]) -> bool:
    return [len(member["activeTasks"]) for member in members] == [2, 2] and all_tasks(members, "activeTasks") == TASKS


def test_instance_that_is_stopped_leaves_its_tasks_to_the_other_at_once(
    application: Application,
    ottla: Callable[..., Any],
    produce: Callable[..., Any],
    counted: Callable[[Application], None],
    eventually: Any,
) -> None:
    application.start()
    leaving = application.start()
    eventually(lambda: is_balanced(tasks_of(ottla, application.name)), STARTS_S)

    leaving.terminate()
    eventually(lambda: [each["activeTasks"] for each in tasks_of(ottla, application.name)] == [TASKS], SESSION_S // 2)
    application.send(produce, 100)
    counted(application)

    assert application.runs(0)


def test_standby_tasks_are_on_another_instance_than_the_active_one(
    application: Application,
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    eventually: Any,
) -> None:
    set_group(kafka, application.name, "streams.num.standby.replicas=1")
    application.start()
    application.start()

    def standbys() -> list[dict[str, Any]]:
        members = tasks_of(ottla, application.name)
        is_complete = is_balanced(members) and all_tasks(members, "standbyTasks") == ["1_0", "1_1"]
        return members if is_complete else []

    members = eventually(standbys, STARTS_S)

    assert all(not set(member["standbyTasks"]) & set(member["activeTasks"]) for member in members)
    assert len({member["processId"] for member in members}) == 2


def test_group_is_listed_and_described_by_kafkas_tools_and_ours(
    application: Application,
    broker: Any,
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    produce: Callable[..., Any],
    counted: Callable[[Application], None],
    eventually: Any,
) -> None:
    name = application.name
    application.start()
    eventually(application.runs, STARTS_S)
    application.send(produce, 50)
    counted(application)

    offsets = eventually(lambda: ended(kafka(GROUPS, "--describe", "--group", name, "--offsets", "--verbose").rows))
    state = kafka(GROUPS, "--describe", "--group", name, "--state", "--verbose").rows
    members = kafka(GROUPS, "--describe", "--group", name, "--members", "--verbose").rows
    own = json.loads(ottla("group", "describe", name, "-o", "json").out)
    (task,) = own["tasks"]

    assert state[1] == [
        name,
        broker.bootstrap,
        "(1)",
        "Stable",
        str(own["groupEpoch"]),
        str(own["assignmentEpoch"]),
        "1",
    ]
    assert members[1][:8] == [
        *(name, str(own["assignmentEpoch"]), "0", task["memberId"], "streams"),
        *(str(task["memberEpoch"]), task["processId"], task["clientId"]),
    ]
    assert " ".join(members[1][8:]) == "ACTIVE: 0:[0,1]; 1:[0,1]; TARGET-ACTIVE: 0:[0,1]; 1:[0,1];"
    assert sorted(row[1:4] for row in offsets) == [
        [each["topic"], str(each["partition"]), "-" if each["currentOffset"] is None else str(each["currentOffset"])]
        for each in own["partitions"]
    ]
    assert own["subtopologies"] == [
        {
            "subtopologyId": "0",
            "sourceTopics": [f"{name}-in"],
            "repartitionSourceTopics": [],
            "repartitionSinkTopics": [application.repartition],
            "changelogTopics": [],
        },
        {
            "subtopologyId": "1",
            "sourceTopics": [],
            "repartitionSourceTopics": [application.repartition],
            "repartitionSinkTopics": [],
            "changelogTopics": [application.changelog],
        },
    ]
    assert [name, "Stable"] in kafka(GROUPS, "--list", "--state").rows
    assert [name, "Streams", "streams"] in kafka("kafka-groups", "--list", "--streams").rows
    listed = json.loads(ottla("group", "list", "-o", "json").out)
    assert {"name": name, "type": "streams", "state": "Stable", "protocolType": "streams"} in listed


def ended(rows: list[list[str]]) -> list[list[str]]:
    """Return the offsets of a group, without the titles, if it has read everything."""
    return rows[1:] if rows and all(row[-1] == "0" for row in rows[1:]) else []


def test_group_with_a_member_is_neither_reset_nor_deleted(
    application: Application, kafka: Callable[..., Any], ottla: Callable[..., Any], eventually: Any
) -> None:
    name = application.name
    application.start()
    eventually(application.runs, STARTS_S)

    deleted = kafka(GROUPS, "--delete", "--group", name, code=None)
    reset = kafka(
        GROUPS, "--reset-offsets", "--group", name, "--all-input-topics", "--to-earliest", "--execute", code=None
    )

    assert f"Streams group '{name}' is not EMPTY." in deleted.stdout + deleted.stderr
    assert "is inactive, but the current state is Stable." in reset.stdout + reset.stderr
    assert "has 1 member(s), state Stable" in ottla("group", "delete", name, "--yes").err


@pytest.mark.parametrize("tool", ["kafka", "ottla"])
def test_application_counts_again_after_its_offsets_were_reset(
    stopped: Application,
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    consume: Callable[..., Any],
    eventually: Any,
    tool: str,
) -> None:
    name = stopped.name
    if tool == "kafka":
        reset = kafka(
            GROUPS, "--reset-offsets", "--group", name, "--all-input-topics", "--to-earliest", "--execute"
        ).rows
        topics = [row[1] for row in reset[1:]]
    else:
        reset = json.loads(ottla("group", "reset", name, "--all-topics", "--to", "start", "--yes", "-o", "json").out)
        topics = [each["topic"] for each in reset]

    assert set(topics) == {f"{name}-in"}
    stopped.start()
    eventually(lambda: stopped.runs(1), STARTS_S)
    assert len(consume(f"{name}-out", 100, {"isolation.level": "read_committed"})) == 100


@pytest.mark.parametrize("tool", ["kafka", "ottla"])
def test_group_is_deleted_with_its_internal_topics(
    stopped: Application, kafka: Callable[..., Any], ottla: Callable[..., Any], eventually: Any, tool: str
) -> None:
    name = stopped.name
    if tool == "kafka":
        deleted = kafka(GROUPS, "--delete", "--group", name, "--delete-all-internal-topics").lines
        assert deleted[0] == f"Deletion of requested streams groups ('{name}') was successful."
    else:
        assert ottla("group", "delete", name, "--internal-topics", "--yes").code == 0

    topics = {stopped.repartition, stopped.changelog}
    eventually(lambda: not topics & set(kafka("kafka-topics", "--list").lines))
    assert name not in kafka(GROUPS, "--list").lines
    assert ottla("group", "describe", name).code == 3
    assert {f"{name}-in", f"{name}-out"} <= set(kafka("kafka-topics", "--list").lines)


def test_offsets_of_an_input_topic_are_deleted(stopped: Application, kafka: Callable[..., Any]) -> None:
    source = f"{stopped.name}-in"

    deleted = kafka(GROUPS, "--delete-offsets", "--group", stopped.name, "--input-topic", source).rows

    assert sorted(row for row in deleted if row[0] == source) == [
        [source, "0", "Successful"],
        [source, "1", "Successful"],
    ]


def test_application_is_reset_by_its_tool(
    stopped: Application, kafka: Callable[..., Any], counted: Callable[[Application], None], eventually: Any
) -> None:
    name = stopped.name

    said = kafka("kafka-streams-application-reset", "--application-id", name, "--input-topics", f"{name}-in").stdout

    assert f"Topic: {name}-in Partition: 0 Offset: 0" in said
    topics = {stopped.repartition, stopped.changelog}
    eventually(lambda: not topics & set(kafka("kafka-topics", "--list").lines))
    stopped.start()
    eventually(lambda: stopped.runs(1), STARTS_S)


def test_settings_of_a_group_are_described_and_limited(kafka: Callable[..., Any], unique: Callable[[str], str]) -> None:
    group = unique("streams")
    set_group(kafka, group, "streams.num.standby.replicas=1")
    change = ("--alter", "--entity-type", "groups", "--entity-name", group, "--add-config")

    described = kafka("kafka-configs", "--describe", "--entity-type", "groups", "--entity-name", group, "--all").lines
    rejected = [
        kafka("kafka-configs", *change, setting, code=1)
        for setting in ("streams.num.standby.replicas=3", "streams.session.timeout.ms=44999")
    ]

    assert (
        "  streams.num.standby.replicas=1 sensitive=false "
        "synonyms={DYNAMIC_GROUP_CONFIG:streams.num.standby.replicas=1, "
        "DEFAULT_CONFIG:group.streams.num.standby.replicas=0}"
    ) in described
    assert (
        "  streams.session.timeout.ms=45000 sensitive=false "
        "synonyms={DEFAULT_CONFIG:group.streams.session.timeout.ms=45000}"
    ) in described
    limits = ("group.streams.max.standby.replicas", "group.streams.min.session.timeout.ms")
    assert all(limit in each.stderr for limit, each in zip(limits, rejected, strict=True))
