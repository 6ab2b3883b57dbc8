"""`ottla export`: a thousand topics and all users of a real node, adopted by the operator without a change."""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.cli.exit_codes import ExitCode
from ottla.client.admin import AdminClient
from ottla.client.admin_topics import TopicCreation
from ottla_operator.adapters.kafka.ottla_admin import connector
from ottla_operator.controllers.topic.reconcile import DesiredTopic, reconcile_topics
from ottla_operator.model import schema
from ottla_operator.model.conditions import Reached
from ottla_operator.model.topic import Topic
from ottla_operator.planning.steps.topic import AdoptTopic

TOPICS = 1_000
BATCH = 256
"""Topics that the operator reconciles together."""
CONFIGS: Sequence[dict[str, str]] = (
    {},
    {"retention.ms": "604800000", "cleanup.policy": "compact,delete"},
    {"max.message.bytes": "1048576", "min.cleanable.dirty.ratio": "0.25", "compression.type": "zstd"},
    {"retention.bytes": "-1", "min.insync.replicas": "1", "message.timestamp.type": "LogAppendTime"},
    {"min.insync.replicas": "2"},
)
NAMES = ("y", "null", "1e3", "0x1F", "No", "_", "-", "Orders.EU_v1", "orders.eu-v1", "T" * 249, "t" * 249)


@pytest.fixture(scope="module")
def guarded_node(run_node: Callable[..., Any], free_port: Callable[[], int]) -> Any:
    """Return a node with an authorizer, and its address; all clients are super users."""
    address, quorum = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    node = run_node(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": quorum,
            "listeners": f"PLAINTEXT://{address},CONTROLLER://{quorum}",
            "controller.listener.names": "CONTROLLER",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:root",
        }
    )
    return node, address


@pytest.fixture
def guarded(run: Any, guarded_node: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs a command line against `guarded_node`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", guarded_node[1])
    return run


def create(address: str, topics: Sequence[TopicCreation]) -> None:
    async def run() -> None:
        async with AdminClient(address, client_id="test", request_timeout_s=60) as admin:
            assert await admin.create_topics(topics) == {}

    asyncio.run(run())


def records(run: Any, folder: Path) -> list[str]:
    """Return the records of the metadata log, without those that controllers write while nothing happens."""
    dumped = run("log", "dump", "--cluster-metadata", str(folder / "data" / "__cluster_metadata-0")).out
    found = re.findall(r"^\| offset: \d+ .*$", dumped, re.MULTILINE)
    assert found
    return [line for line in found if '"NO_OP_RECORD"' not in line]


def documents(text: str) -> list[dict[str, Any]]:
    # The loader in C reads the same as that of `ottla apply`, ten times as fast.
    return [it for it in yaml.load_all(text, Loader=yaml.CSafeLoader) if it is not None]


def adopt(address: str, topics: Sequence[Topic]) -> list[Any]:
    """Reconcile new Topic objects as the operator does; return the results."""

    async def run() -> list[Any]:
        results: list[Any] = []
        async with connector()(address, {}) as broker:
            for first in range(0, len(topics), BATCH):
                desired = [DesiredTopic(topic) for topic in topics[first : first + BATCH]]
                results += (await reconcile_topics(desired, broker)).values()
        return results

    return asyncio.run(run())


def test_adoption_of_a_thousand_topics_writes_nothing(guarded: Any, guarded_node: Any) -> None:
    node, address = guarded_node
    names = [*NAMES, *(f"t{number:04}" for number in range(TOPICS - len(NAMES)))]
    configs = {name: CONFIGS[number % len(CONFIGS)] for number, name in enumerate(names)}
    create(address, [TopicCreation(name=it, partitions=1 + (it in NAMES), config=configs[it]) for it in names])

    ran = guarded("export", "--cluster", "demo", "--kind", "topic")
    manifests = documents(ran.out)
    # Other tests create topics on the same node.
    topics = [it for it in map(Topic.parse, manifests) if it.topic_name in configs]
    for manifest in manifests[:: len(CONFIGS) * 8 + 1]:
        schema.admit(manifest)
    before = records(guarded, node.folder)
    results = adopt(address, topics)

    assert ran.code == 0, ran.err
    assert {it.topic_name: it.config for it in topics} == configs
    assert {it.topic_name for it in topics if it.partitions == 2} == set(NAMES)
    assert len({it.metadata.name for it in topics}) == TOPICS
    assert all(isinstance(it.readiness, Reached) for it in results)
    assert {type(step) for it in results for step in it.done} == {AdoptTopic}
    assert records(guarded, node.folder) == before
    assert sum('"TOPIC_RECORD"' in it for it in before) >= TOPICS
    assert ran.err.count("has no replicationFactor here: its min.insync.replicas is 2") == TOPICS / len(CONFIGS)


def test_adoption_of_users_keeps_credentials_entries_and_limits(
    guarded: Any, guarded_node: Any, tmp_path: Path
) -> None:
    node, address = guarded_node
    for mechanism in ("scram-sha-256", "scram-sha-512"):
        guarded("user", "add", mechanism, "--mechanism", mechanism, "--password-stdin", stdin=b"secret\n")
    for principal in ("User:scram-sha-512", "User:CN=bob,O=x", "User:svc"):
        guarded("acl", "add", principal, "--allow", "read", "--topic", "y", "--group", "null", "--host", "10.0.0.9")
        guarded("acl", "add", principal, "--deny", "all", "--topic", "app.", "--prefixed")
    guarded("acl", "add", "User:*", "--allow", "describe", "--topic", "*")
    guarded("acl", "add", "User:root", "--allow", "all", "--cluster")
    guarded("acl", "add", "User:minter", "--allow", "read", "--topic", "y")
    guarded("acl", "add", "User:minter", "--allow", "create-tokens", "--user", "User:svc")
    guarded("quota", "set", "--user", "svc", "producer_byte_rate=1000", "controller_mutation_rate=0.5")
    guarded("quota", "set", "--client-id", "", "consumer_byte_rate=7")

    ran = guarded("export", "--cluster", "demo", "--kind", "user")
    file, state = tmp_path / "users.yaml", tmp_path / "state"
    file.write_text(ran.out)
    before = records(guarded, node.folder)
    applied = guarded("apply", "-b", address, "-f", str(file), "--dir", str(state), "--timeout", "0.1")

    assert [it["metadata"]["name"].rpartition("-")[0] or it["metadata"]["name"] for it in documents(ran.out)] == [
        "cn-bob-o-x",
        "minter",
        "scram-sha",
        "scram-sha",
        "svc",
    ]
    assert ran.err.splitlines() == [
        "warning: User:* has no manifest: it stands for all users; its entries stay",
        "warning: User:minter is paused here: its manifest cannot have 1 of its entries and limits",
        "warning: User:root has no manifest: it is a super user of the brokers, which no User can be; it stays",
        "warning: 1 quotas of client ids, addresses and defaults have no manifest, and stay as they are",
        "5 manifests",
    ]
    for comment in (
        "#   allow describe on topic *",
        "#   client-id <default>: consumer_byte_rate=7",
        "allow create-tokens",
    ):
        assert comment in ran.out
    assert applied.out.splitlines() == [
        "user/cn-bob-o-x-6b485a9c created",
        "user/minter waiting",
        "user/scram-sha-256 waiting",
        "user/scram-sha-512 waiting",
        "user/svc created",
    ]
    assert applied.err.count("PasswordMissing") == 2
    assert records(guarded, node.folder) == before

    password = state / "secrets" / "scram-sha-256-password"
    password.mkdir(parents=True)
    (password / "password").write_text("secret")
    guarded("apply", "-b", address, "-f", str(file), "--dir", str(state), "--timeout", "0.1")
    listed = yaml.safe_load(guarded("user", "list", "-o", "yaml").out)
    assert [it["mechanisms"] for it in listed if it["name"] == "scram-sha-256"] == [["SCRAM-SHA-256"]]


def test_only_matching_topics_are_exported_and_internal_ones_never(guarded: Any) -> None:
    guarded("topic", "create", "in.a", "in.b", "out", "--if-not-exists")

    ran = guarded("export", "--kind", "topic", "--topics", "in[.]a", "--topics", "in[.]", "--namespace", "kafka")

    (document,) = documents(ran.out)
    assert document["metadata"] == {"name": "in.a", "namespace": "kafka"}
    assert document["spec"]["clusterRef"] == {"name": "ottla"}


def test_nothing_to_export_is_said_and_prints_nothing(guarded: Any) -> None:
    ran = guarded("export", "--kind", "topic", "--topics", "there-is-none")

    assert (ran.code, ran.out, ran.err) == (0, "", "there is nothing to export\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--topics", "a("], "'a(' is no regular expression", id="regex"),
        pytest.param(["--cluster", "My_Cluster"], "'My_Cluster' is no name of a Kubernetes object", id="cluster"),
        pytest.param(["--namespace", "n" * 64], "is no name of a Kubernetes object", id="namespace"),
    ],
)
def test_wrong_arguments_are_wrong_usage(guarded: Any, arguments: list[str], message: str) -> None:
    ran = guarded("export", *arguments)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert message in ran.err


def test_unreachable_brokers_are_reported_and_nothing_is_printed(run: Any, free_port: Callable[[], int]) -> None:
    ran = run("export", "-b", f"127.0.0.1:{free_port()}", "--timeout", "0.3")

    assert (ran.code, ran.out) == (ExitCode.TIMEOUT, "")
    assert "error: " in ran.err
