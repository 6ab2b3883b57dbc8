"""A share group reads along while the leaders below it are killed: every record, and few of them twice."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ottla.client.admin import AdminClient
from ottla.client.share_consumer import ShareConsumer
from ottla.config.resource_type import ConfigResourceType

PARTITIONS = 6
GROUP = "workers"


class Members:
    """Two members of a share group, in a thread with an event loop; they accept what they have read."""

    def __init__(self, bootstrap: str) -> None:
        self.reads: Counter[int] = Counter()
        """How often each record was delivered."""
        self.failure: BaseException | None = None
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            asyncio.run(self._read_both())
        except BaseException as error:
            self.failure = error

    async def _read_both(self) -> None:
        await asyncio.gather(self._read(), self._read())

    async def _read(self) -> None:
        async with ShareConsumer(self._bootstrap, group_id=GROUP, topics=["t"]) as member:
            while not self._stopping.is_set():
                for record in await member.poll(max_wait_ms=100):
                    assert record.value is not None
                    self.reads[int(record.value)] += 1


async def reset_to_earliest(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as admin:
        await admin.alter_configs(ConfigResourceType.GROUP, GROUP, upserts={"share.auto.offset.reset": "earliest"})


def test_share_group_reads_everything_while_each_node_is_killed(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    cluster.start()
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    asyncio.run(reset_to_earliest(cluster.bootstrap))
    ledger = cluster.ledger("t")
    ledger.start()
    members = Members(cluster.bootstrap)
    for node_id in cluster.nodes:
        ledger.wait_acknowledged(PARTITIONS)
        time.sleep(1)
        cluster.nodes[node_id].kill()
        time.sleep(0.5)
        cluster.restart(node_id)
        cluster.wait_in_sync("t")
    ledger.stop()
    deadline = time.monotonic() + 90
    while not ledger.acknowledged <= members.reads.keys():
        assert members.failure is None, members.failure
        missing = sorted(ledger.acknowledged - members.reads.keys())
        assert time.monotonic() < deadline, f"{len(missing)} records were not delivered, from {missing[:5]} on"
        time.sleep(0.1)
    members.stop()

    # Delivered again is only what was not acknowledged when its leader ended: less than one fetch of each member.
    again = sum(count - 1 for count in members.reads.values())
    assert again < len(ledger.acknowledged) / 4, f"{again} of {len(ledger.acknowledged)} were delivered again"
    ledger.check(members.reads.keys())
