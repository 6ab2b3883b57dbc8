"""Clusters whose nodes have their log directories on file systems of their own, which tests make sick."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from benchmarks import file_systems


@contextmanager
def started_on_file_systems(cluster: Any, topic: str, partitions: int, directory: str = "data") -> Iterator[None]:
    """Start the cluster and create the topic; the test is skipped where file systems cannot be mounted.

    ``directory`` of each node gets a file system of its own.
    """
    if (missing := file_systems.missing()) is not None:
        pytest.skip(f"file systems are mounted: needs {missing}")
    with ExitStack() as stack:
        try:
            stack.enter_context(
                file_systems.mounted_each(each.directory / directory for each in cluster.nodes.values())
            )
        except OSError as error:
            pytest.skip(str(error))
        stack.callback(cluster.close)
        cluster.start()
        cluster.create_topic(topic, partitions=partitions, min_insync_replicas="2")
        yield
