"""A node that may start few threads, or none: it serves with those it has, and says why it has no more."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from starved_node import connect_when_ready, create_topic

USER_ID = 54_321
"""Of a user without any process: the limit counts all threads of a user, and does not hold for root."""
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv, to run a node as another user"
)


def limited_to(threads: int) -> list[str]:
    """Return the words before a command that may have this many threads, and may read what its caller may."""
    user = [f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups"]
    capabilities = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return ["setpriv", *user, *capabilities, "prlimit", f"--nproc={threads}"]


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory that belongs to the other user, who cannot reach those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="ottla-threads-"))
    os.chown(path, USER_ID, USER_ID)
    yield path
    shutil.rmtree(path)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("threads", [2, 4], ids=["admin-pages-only", "two-more"])
def test_node_without_further_threads_serves_and_ends_in_order(
    tmp_path: Path, directory: Path, free_port: Callable[[], int], bound: list[str], threads: int
) -> None:
    port, output = free_port(), tmp_path / "node.out"
    dev = [sys.executable, "-m", "ottla", "dev", "--port", str(port), "--data-dir", str(directory)]
    with output.open("wb") as said:
        node = subprocess.Popen([*bound, *limited_to(threads), *dev], stdout=said, stderr=said)
    try:
        sock = connect_when_ready(node, port, output)
        code = create_topic(sock, "topic")
        sock.close()
        values = [b"%d" % number for number in range(100)]
        produce(f"127.0.0.1:{port}", values)
        found = consume(f"127.0.0.1:{port}", len(values))
    finally:
        node.terminate()
        exit_code = node.wait(30)

    text = output.read_text()
    assert code == 0, text
    assert found == values
    assert exit_code == 0, text
    assert "raise the limit of processes" in text
    assert "check the limit of processes (pids)" in text
    assert "Traceback" not in text


def test_node_that_may_not_start_its_admin_pages_names_the_limit(directory: Path, free_port: Callable[[], int]) -> None:
    dev = [sys.executable, "-m", "ottla", "dev", "--port", str(free_port()), "--data-dir", str(directory)]

    ended = subprocess.run([*limited_to(1), *dev], capture_output=True, text=True, timeout=60)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(
        "error: can't start new thread for the admin pages: raise the limit"
    )
    assert "Traceback" not in ended.stderr


def produce(bootstrap: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce("topic", value, partition=0)
    assert producer.flush(30) == 0


def consume(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "group", "auto.offset.reset": "earliest"})
    consumer.subscribe(["topic"])
    found: list[bytes | None] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=30)
        assert messages, f"{len(found)} of {count} records came"
        found += [message.value() for message in messages]
    consumer.close()
    return found
