"""Speed of the message codec, next to kio and kafka-python: a table on standard output.

    python -m benchmarks.codec_messages [--seconds 0.3] [--only-ours]

Every figure is the best of five rounds on one core, of the same bytes for each codec. kio and kafka-python copy record
bytes; here they stay where they are.
"""

import argparse
import io
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from benchmarks.codec_records import best_seconds

from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

RECORDS = bytes(range(256)) * 4


class Case(NamedTuple):
    label: str
    message: Message
    version: int
    kio_module: str
    kafka_python_module: str


def metadata_response(partitions: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"broker-{node}.example", port=9092) for node in range(3)],
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                name="flights",
                topic_id=Uuid(b"0123456789abcdef"),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=index % 3,
                        leader_epoch=5,
                        replica_nodes=[index % 3, (index + 1) % 3, (index + 2) % 3],
                        isr_nodes=[index % 3, (index + 1) % 3, (index + 2) % 3],
                    )
                    for index in range(partitions)
                ],
            )
        ],
    )


def cases() -> list[Case]:
    produce = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="flights", partition_data=[PartitionProduceData(index=3, records=RECORDS)])],
    )
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="flights", partition_responses=[PartitionProduceResponse(index=3, base_offset=1_000_000)]
            )
        ]
    )
    fetch = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_id=7,
        session_epoch=3,
        topics=[FetchTopic(topic="flights", partitions=[FetchPartition(partition=3, partition_max_bytes=1 << 20)])],
    )
    fetched = FetchResponse(
        session_id=7,
        responses=[
            FetchableTopicResponse(
                topic="flights", partitions=[PartitionData(partition_index=3, high_watermark=9, records=RECORDS)]
            )
        ],
    )
    versions = ApiVersionsResponse(api_keys=[ApiVersion(api_key=key, max_version=9) for key in range(60)])
    heartbeat = HeartbeatRequest(group_id="spark", generation_id=3, member_id="consumer-1-0d1e2f")
    return [
        Case("Metadata response, 1,000 partitions", metadata_response(1_000), 12, "metadata.v12.response", "metadata"),
        Case("Metadata response, 6 partitions", metadata_response(6), 12, "metadata.v12.response", "metadata"),
        Case("Produce request, 1 KiB of records", produce, 9, "produce.v9.request", "producer"),
        Case("Produce response", produced, 9, "produce.v9.response", "producer"),
        Case("Fetch request", fetch, 12, "fetch.v12.request", "consumer"),
        Case("Fetch response, 1 KiB of records", fetched, 12, "fetch.v12.response", "consumer"),
        Case("ApiVersions response, 60 APIs", versions, 3, "api_versions.v3.response", "metadata"),
        Case("Heartbeat request", heartbeat, 4, "heartbeat.v4.request", "consumer"),
    ]


def best_us(action: Callable[[], object], seconds: float) -> float:
    return best_seconds(action, seconds) * 1e6


def ours(case: Case, seconds: float) -> tuple[float, float]:
    data = bytearray(case.message.encode(case.version))

    def encode() -> None:
        case.message.write(case.version, bytearray(), [])

    return best_us(encode, seconds), best_us(lambda: type(case.message).decode(data, case.version), seconds)


def with_kio(case: Case, seconds: float) -> tuple[float, float]:
    serial = import_module("kio.serial")
    kind: Any = getattr(import_module(f"kio.schema.{case.kio_module}"), type(case.message).__name__)
    read, write = serial.entity_reader(kind), serial.entity_writer(kind)
    data = case.message.encode(case.version)
    theirs, _ = read(data, 0)
    return best_us(lambda: write(io.BytesIO(), theirs), seconds), best_us(lambda: read(data, 0), seconds)


def with_kafka_python(case: Case, seconds: float) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = import_module(f"kafka.protocol.{case.kafka_python_module}")
    kind: Any = getattr(module, type(case.message).__name__)
    data = case.message.encode(case.version)
    theirs = kind.decode(data, version=case.version)
    return best_us(theirs.encode, seconds), best_us(lambda: kind.decode(data, version=case.version), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure (default 0.3)")
    parser.add_argument("--only-ours", action="store_true", help="leave kio and kafka-python out")
    options = parser.parse_args()
    codecs = {"ottla": ours}
    if not options.only_ours:
        codecs |= {"kio": with_kio, "kafka-python": with_kafka_python}
    heads = "".join(f"{f'{name} enc':>18}{f'{name} dec':>18}" for name in codecs)
    print(f"{'microseconds':<38}{'bytes':>8}{heads}")
    for case in cases():
        figures = "".join(
            f"{encode:>18,.1f}{decode:>18,.1f}"
            for encode, decode in (measure(case, options.seconds) for measure in codecs.values())
        )
        print(f"{f'{case.label} v{case.version}':<38}{len(case.message.encode(case.version)):>8}{figures}")


if __name__ == "__main__":
    main()
