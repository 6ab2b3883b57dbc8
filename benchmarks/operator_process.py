"""The operator as a process, whose connections to brokers go to ``BROKERS`` for any address of a Cluster.

``python -m benchmarks.operator_process``; everything else as in a cluster: kopf, workers, HTTP, ``OTTLA_OPERATOR_*``.
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ottla_operator.adapters.kafka import ottla_admin
from ottla_operator.main import run
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.runtime.settings import Settings


@asynccontextmanager
async def connect(_: str, properties: Mapping[str, str]) -> AsyncIterator[BrokerAdmin]:
    async with ottla_admin.connector()(os.environ["BROKERS"], properties) as broker:
        yield broker


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    asyncio.run(run(Settings.from_environment(), connect))
