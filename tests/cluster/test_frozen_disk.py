"""A disk that does not respond stops the loop of its node; the node then disconnects, and the others go on."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

PARTITIONS = 6
FROZEN_S = 12
"""Longer than broker.session.timeout.ms."""

TOOLS = ("mkfs.ext4", "mount", "umount", "fsfreeze")


@contextmanager
def file_system(directory: Path) -> Iterator[None]:
    """Put what is in ``directory`` on a file system of its own."""
    contents, image = directory.with_suffix(".contents"), directory.with_suffix(".image")
    directory.rename(contents)
    directory.mkdir()
    image.touch()
    os.truncate(image, 256 * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(directory)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        shutil.copytree(contents, directory, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@contextmanager
def frozen(directory: Path) -> Iterator[None]:
    """Let every write to the file system wait."""
    subprocess.run(["fsfreeze", "--freeze", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(directory)], check=True)


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Iterator[Any]:
    if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
        pytest.skip(f"a file system is mounted and frozen: needs root and {', '.join(TOOLS)}")
    made = new_cluster()
    with ExitStack() as stack:
        for node in made.nodes.values():
            stack.enter_context(file_system(node.directory / "data"))
        stack.callback(made.close)
        made.start()
        made.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
        yield made


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
def test_node_with_a_frozen_disk_is_replaced_and_returns(cluster: Any, is_controller: bool) -> None:
    active = cluster.active_controller()
    victim = active if is_controller else next(each for each in cluster.nodes if each != active)
    node = cluster.nodes[victim]
    ledger = cluster.ledger("t")
    ledger.start()
    time.sleep(1)
    with frozen(node.directory / "data"):
        cluster.wait_line(node, "shut down the listeners")
        time.sleep(FROZEN_S)
        assert victim not in cluster.leaders("t").values()
    cluster.wait_line(node, "listening again")
    cluster.wait_in_sync("t")
    ledger.stop()

    print("STALLS", ledger.stalls_s)
    ledger.check(cluster.read_all("t", PARTITIONS))
    assert not any(f"broker {victim} was silent" in each.log_text() for each in cluster.nodes.values())
