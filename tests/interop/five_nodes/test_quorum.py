"""The quorum of three voters and two observers, as Kafka's tools see and change it."""

import json
import re
from collections.abc import Callable
from typing import Any

SEGMENT = f"__cluster_metadata-0/{0:020}.log"


def status(five: Any) -> dict[str, str]:
    lines = five.tool("kafka-metadata-quorum", "describe", "--status").lines
    return {key: text.strip() for key, text in (line.split(":", 1) for line in lines)}


def replicas(five: Any) -> dict[str, dict[str, str]]:
    """Return the rows of ``describe --replication`` by node id."""
    header, *rows = five.tool("kafka-metadata-quorum", "describe", "--replication").rows
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def ids(voters: str) -> list[int]:
    return sorted(each["id"] for each in json.loads(voters))


def test_three_vote_and_two_observe(five: Any) -> None:
    fields = status(five)

    assert ids(fields["CurrentVoters"]) == [1, 2, 3]
    assert ids(fields["CurrentObservers"]) == [4, 5]
    assert {each["id"]: each["directoryId"] for each in json.loads(fields["CurrentVoters"])} == {
        each: five.directory_id(each) for each in (1, 2, 3)
    }
    assert {each["id"]: each["directoryId"] for each in json.loads(fields["CurrentObservers"])} == {
        each: five.directory_id(each) for each in (4, 5)
    }
    assert json.loads(fields["CurrentVoters"])[0]["endpoints"][0].startswith("CONTROLLER://127.0.0.1:")
    assert all("endpoints" not in each for each in json.loads(fields["CurrentObservers"]))


def test_every_node_follows_the_log(five: Any) -> None:
    rows = five.wait_for(
        lambda: (found := replicas(five)) and all(int(r["Lag"]) <= 3 for r in found.values()) and found
    )

    assert sorted(rows) == list("12345")
    assert sorted(row["Status"] for row in rows.values()) == ["Follower", "Follower", "Leader", "Observer", "Observer"]
    assert (rows["4"]["Status"], rows["5"]["Status"]) == ("Observer", "Observer")
    assert {row["DirectoryId"] for row in rows.values()} == {five.directory_id(each) for each in range(1, 6)}


def test_controller_leaves_the_quorum_and_joins_it_again(five: Any) -> None:
    leader = int(status(five)["LeaderId"])
    leaving = next(each for each in (3, 2) if each != leader)
    removed = five.tool(
        "kafka-metadata-quorum",
        "remove-controller",
        "--controller-id",
        str(leaving),
        "--controller-directory-id",
        five.directory_id(leaving),
    )
    assert removed.lines == [f"Removed  KRaft controller {leaving} with directory id {five.directory_id(leaving)}"]
    five.wait_for(lambda: replicas(five).get(str(leaving), {}).get("Status") == "Observer")
    assert ids(status(five)["CurrentVoters"]) == sorted({1, 2, 3} - {leaving})

    added = five.tool("kafka-metadata-quorum", "--command-config", str(five.config(leaving)), "add-controller")

    endpoints = f"CONTROLLER://127.0.0.1:{five.controller_ports[leaving]}"
    assert added.lines == [
        f"Added controller {leaving} with directory id {five.directory_id(leaving)} and endpoints: {endpoints}"
    ]
    assert ids(status(five)["CurrentVoters"]) == [1, 2, 3]


def test_observer_cannot_be_removed_as_a_voter(five: Any) -> None:
    rejected = five.tool(
        "kafka-metadata-quorum",
        "remove-controller",
        "--controller-id",
        "4",
        "--controller-directory-id",
        five.directory_id(4),
        code=1,
    )

    assert "org.apache.kafka.common.errors.VoterNotFoundException" in rejected.stdout + rejected.stderr
    assert ids(status(five)["CurrentVoters"]) == [1, 2, 3]


def test_follower_s_log_is_the_leader_s(
    five: Any, kafka_tool: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    topic = unique("dumped")
    five.create(topic, "--partitions", "10", "--replication-factor", "3")
    leader = int(status(five)["LeaderId"])

    def dump(node_id: int) -> str:
        path = five.data(node_id) / SEGMENT
        return str(kafka_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path)).stdout)

    def has_topic(node_id: int) -> bool:
        return dump(node_id).count('"type":"PARTITION_RECORD"') >= 10 and f'"name":"{topic}"' in dump(node_id)

    for node_id in range(1, 6):
        five.wait_for(lambda node_id=node_id: has_topic(node_id))
    texts = {node_id: dump(node_id) for node_id in range(1, 6)}
    records = {node_id: re.findall(r"payload: (.*)", text) for node_id, text in texts.items()}
    shortest = min(len(each) for each in records.values())
    assert all(each[:shortest] == records[leader][:shortest] for each in records.values())
    assert all("isvalid: false" not in text for text in texts.values())
    registered = re.findall(r'"type":"REGISTER_BROKER_RECORD","version":\d,"data":\{"brokerId":(\d)', texts[4])
    assert set(registered) == set("12345")


def test_broker_is_configured_by_the_tools(five: Any) -> None:
    def configs(*args: str, code: int | None = 0) -> Any:
        return five.tool("kafka-configs", "--entity-type", "brokers", *args, code=code)

    one = configs("--entity-name", "4", "--alter", "--add-config", "log.cleaner.threads=1")
    all_of_them = configs("--entity-default", "--alter", "--add-config", "log.cleaner.threads=2")

    assert one.lines == ["Completed updating config for broker 4."]
    assert all_of_them.lines == ["Completed updating default config for brokers in the cluster."]

    def shown(node_id: int) -> str:
        lines: list[str] = configs("--entity-name", str(node_id), "--describe", "--all").lines
        return next(line.strip() for line in lines if line.strip().startswith("log.cleaner.threads="))

    five.wait_for(lambda: shown(5).startswith("log.cleaner.threads=2 "))
    five.wait_for(lambda: shown(4).startswith("log.cleaner.threads=1 "))
    both = "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=1, DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=2"
    assert both in shown(4)
    configs("--entity-name", "4", "--alter", "--delete-config", "log.cleaner.threads")
    configs("--entity-default", "--alter", "--delete-config", "log.cleaner.threads")
