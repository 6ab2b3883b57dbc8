"""kcat: the tool that people reach for first speaks to the node as to Kafka."""

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt-get install kcat)"
)


@pytest.fixture
def kcat(broker: Any) -> Callable[..., str]:
    def run(*args: str, input: str = "") -> str:
        command = ["kcat", "-b", broker.bootstrap, *args]
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_metadata_names_the_broker_and_the_topic(
    kcat: Callable[..., str], broker: Any, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)

    metadata = json.loads(kcat("-L", "-J", "-t", topic))

    assert [node["name"] for node in metadata["brokers"]] == [broker.bootstrap]
    (row,) = metadata["topics"]
    node_id = metadata["brokers"][0]["id"]
    assert row["topic"] == topic
    assert row["partitions"] == [
        {"partition": index, "leader": node_id, "replicas": [{"id": node_id}], "isrs": [{"id": node_id}]}
        for index in range(3)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_key_headers_and_value_come_back(kcat: Callable[..., str], new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()

    kcat("-P", "-t", topic, "-K", ":", "-H", "h=1", "-z", codec, input="k1:v1\nk2:v2\n")
    rows = [json.loads(line) for line in kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J").splitlines()]

    assert [(row["key"], row["payload"], row["offset"], row["headers"]) for row in rows] == [
        ("k1", "v1", 0, ["h", "1"]),
        ("k2", "v2", 1, ["h", "1"]),
    ]


def test_last_records_are_read(kcat: Callable[..., str], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    kcat("-P", "-t", topic, input="".join(f"{number}\n" for number in range(10)))

    assert kcat("-C", "-t", topic, "-o", "-3", "-e", "-q") == "7\n8\n9\n"


def test_offset_is_found_by_its_timestamp(kcat: Callable[..., str], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    kcat("-P", "-t", topic, input="now\n")

    assert kcat("-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]


def test_balanced_group_reads_a_topic(
    kcat: Callable[..., str], new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = new_topic(partitions=2)
    kcat("-P", "-t", topic, "-p", "0", input="a\n")
    kcat("-P", "-t", topic, "-p", "1", input="b\n")

    read = kcat("-G", unique("kcat"), "-X", "auto.offset.reset=earliest", "-c", "2", "-q", topic)

    assert sorted(read.split()) == ["a", "b"]
