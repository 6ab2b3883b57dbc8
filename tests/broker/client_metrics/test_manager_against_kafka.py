"""Our instances and subscriptions beside Kafka's ClientMetricsManager, on random scripts of requests.

Runs where ``OTTLA_KAFKA_LIBS`` names a folder with Kafka's jars, and a JDK is there to compile one small file.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.client_metrics.manager import ClientMetricsManager
from ottla.config.alter import validate_client_metrics_config
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.purgatory.steps import run_to_end
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Uuid, format_uuid, parse_uuid
from ottla.wire.messages.metadata_log import ConfigRecord

KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS")
pytestmark = pytest.mark.skipif(
    KAFKA_LIBS is None or shutil.which("javac") is None,
    reason="OTTLA_KAFKA_LIBS names no folder of Kafka's jars, or there is no JDK",
)
BYTES_MAX = 100
METRICS = [
    *(f"org.apache.kafka.{kind}.{name}" for kind in ("producer", "consumer") for name in "abcdefghijkl"),
    "ü.😀",
    "*",
]
INTERVALS = [100, 5_000, 300_000, 3_600_000]
MATCHES = ["client_id=app-.*", "client_id=other", "client_source_port=4000[0-9]", "client_software_name=unknown"]


def random_script(seed: int, size: int = 400) -> list[str]:
    """Return commands of RunClientMetricsManager; ``=`` stands for the subscription id of the last ``get``."""
    rng = random.Random(seed)
    instances = [format_uuid(Uuid(rng.randbytes(16))) for _ in range(4)]
    now_ms = 0
    script = []
    for _ in range(size):
        now_ms += rng.choice([0, 50, 100, 3_000, 10_000])
        number = rng.randrange(4)
        # Kafka keeps the attributes of an instance's first request; ours are those of the newest.
        who = f"{now_ms} {instances[number]} {['app-1', 'other', 'else', 'app-2'][number]}"
        kind = rng.random()
        if kind < 0.05:
            metrics = ",".join(rng.sample(METRICS, rng.choice([0, 1, 2, 5, 20])))
            values = [f"metrics={metrics}"] if metrics else []
            values += [f"interval.ms={rng.choice(INTERVALS)}"] if rng.random() < 0.7 else []
            values += [f"match={rng.choice(MATCHES)}"] if rng.random() < 0.5 else []
            script.append(f"subscribe s{rng.randrange(3)} {';'.join(values)}".strip())
        elif kind < 0.4:
            script.append(f"get {who}")
        else:
            subscription = "=" if rng.random() < 0.8 else str(rng.randrange(1 << 31))
            compression = rng.choice([0, 1, 2, 3, 4, 4, 4, 5])
            is_last = "true" if rng.random() < 0.05 else "false"
            # The bytes are zeros: nothing that Kafka could decompress.
            size_bytes = rng.choice([0, 100, 101] if compression == 0 else [0, 101])
            script.append(f"push {who} {subscription} {compression} {is_last} {size_bytes}")
    return script


class Ours:
    """Runs the same script, and fills in the subscription ids."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.started_ms = self.clock.monotonic_ms()
        self.manager = ClientMetricsManager(self.clock, SeededRandom(1), receivers=("log",), bytes_max=BYTES_MAX)
        self.image: MetadataImage = EMPTY_IMAGE
        self.subscription_ids: dict[str, int] = {}
        self.script: list[str] = []

    def run(self, line: str) -> str:
        command, *words = line.split(" ")
        if command == "subscribe":
            self.script.append(line)
            return self._subscribe(words[0], words[1] if len(words) > 1 else "")
        now_ms = self.started_ms + int(words[0])
        self.clock.advance(now_ms - self.clock.monotonic_ms())
        attributes = {
            "client_instance_id": words[1],
            "client_id": words[2],
            "client_software_name": "unknown",
            "client_software_version": "unknown",
            "client_source_address": "127.0.0.1",
            "client_source_port": "40000",
        }
        instance = run_to_end(self.manager.instance(parse_uuid(words[1]), attributes, 1))
        if command == "get":
            self.script.append(line)
            error = instance.on_get(now_ms)
            if error is not ErrorCode.NONE:
                return f"{error.name} 0 0 "
            subscription = instance.subscription
            self.subscription_ids[words[1]] = instance.subscription_id
            return f"NONE {instance.subscription_id} {subscription.interval_ms} {','.join(subscription.metrics)}"
        if words[3] == "=":
            words[3] = str(self.subscription_ids.get(words[1], 0))
        self.script.append(" ".join([command, *words]))
        return instance.on_push(
            int(words[3]),
            compression_type=int(words[4]),
            size_bytes=int(words[6]),
            bytes_max=BYTES_MAX,
            is_last=words[5] == "true",
            now_ms=now_ms,
        ).name

    def _subscribe(self, name: str, text: str) -> str:
        values = dict(value.split("=", 1) for value in text.split(";") if value)
        validate_client_metrics_config(values)
        delta = MetadataDelta(self.image)
        for key in ("metrics", "interval.ms", "match"):
            record = ConfigRecord(
                resource_type=ConfigResourceType.CLIENT_METRICS, resource_name=name, name=key, value=values.get(key)
            )
            delta.replay(record)
        self.image = delta.apply(Provenance())
        self.manager.publish(delta, self.image)
        return "ok"


@pytest.mark.parametrize("seed", range(6))
def test_every_response_is_kafkas(seed: int) -> None:
    ours = Ours()
    results = [ours.run(line) for line in random_script(seed)]

    source = Path(__file__).with_name("RunClientMetricsManager.java")
    ran = subprocess.run(
        [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-Dstdin.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-cp",
            f"{KAFKA_LIBS}/*",
            str(source),
        ],
        input="\n".join(ours.script),
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )

    theirs = [line.removeprefix("> ") for line in ran.stdout.splitlines() if line.startswith("> ")]  # not the log
    assert len({result.split(" ")[0] for result in results}) >= 6, "the script reaches most of the errors"
    assert list(zip(ours.script, results, strict=True)) == list(zip(ours.script, theirs, strict=True))
