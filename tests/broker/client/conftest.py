"""A broker that answers from a script: real sockets and real bytes, no broker."""

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version

Answer = Message | None
Script = Callable[[Any], Answer]


class ScriptedBroker:
    """Listens on a free port; ``scripts`` maps a request class to what answers it.

    A script returns the response, None for no answer at all, or raises ConnectionError to cut the connection.
    """

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.scripts: dict[type[Message], Script] = {}
        self.requests: list[Message] = []
        self.versions: dict[ApiKey, tuple[int, int]] = {
            key: (request_type(key).versions.first, request_type(key).versions.last) for key in ApiKey
        }
        self.endpoint = Endpoint("127.0.0.1", 0)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "ScriptedBroker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = Endpoint("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    def sent(self, request: type[Message]) -> list[Any]:
        """Return the requests of one class that came so far."""
        return [sent for sent in self.requests if isinstance(sent, request)]

    def serve_topic(self, name: str, leaders: list[int], brokers: "list[ScriptedBroker] | None" = None) -> None:
        """Answer Metadata with one topic whose partitions have these leaders."""
        nodes = brokers or [self]

        def answer(request: MetadataRequest) -> MetadataResponse:
            wanted = None if request.topics is None else {topic.name for topic in request.topics}
            topic = MetadataResponseTopic(
                name=name,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
                    )
                    for index, leader in enumerate(leaders)
                ],
            )
            unknown = [MetadataResponseTopic(name=other, error_code=3) for other in sorted((wanted or set()) - {name})]
            return MetadataResponse(
                cluster_id="a-cluster",
                controller_id=nodes[0].node_id,
                brokers=[
                    MetadataResponseBroker(node_id=node.node_id, host=node.endpoint.host, port=node.endpoint.port)
                    for node in nodes
                ],
                topics=([topic] if wanted is None or name in wanted else []) + unknown,
            )

        self.scripts[MetadataRequest] = answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self._answer(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        key, version = ApiKey(int.from_bytes(frame[:2], "big")), int.from_bytes(frame[2:4], "big")
        header, position = RequestHeader.decode_from(frame, request_header_version(key, version))
        if key is ApiKey.API_VERSIONS and version > self.versions[key][1]:
            response: Answer = ApiVersionsResponse(error_code=35, api_keys=self._api_keys())
            version = 0
        else:
            request = request_type(key).decode(frame, version, position)
            self.requests.append(request)
            script = self.scripts.get(type(request))
            if script is None and isinstance(request, ApiVersionsRequest):
                response = ApiVersionsResponse(api_keys=self._api_keys())
            else:
                assert script is not None, f"no script for {request!r}"
                response = script(request)
        if response is not None:
            payload = ResponseHeader(correlation_id=header.correlation_id).encode(response_header_version(key, version))
            payload += response.encode(version)
            writer.write(struct.pack(">i", len(payload)) + payload)

    def _api_keys(self) -> list[ApiVersion]:
        return [
            ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in self.versions.items()
        ]


@pytest.fixture
def make_broker() -> Callable[..., ScriptedBroker]:
    """Return the class, so that a test can run one inside its own event loop."""
    return ScriptedBroker


@pytest.fixture
def broker() -> ScriptedBroker:
    """A broker with id 1, to be entered with ``async with``."""
    return ScriptedBroker()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Retries do not rest: tests run as fast as their scripts."""
    from ottla.client import cluster, consumer, group_member, producer

    with _patched(monkeypatch, cluster, consumer, producer):
        monkeypatch.setattr(group_member, "HEARTBEAT_INTERVAL_S", 0.005)
        yield


@contextmanager
def _patched(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> Iterator[None]:
    for module in modules:
        monkeypatch.setattr(module, "BACKOFF_FIRST_S", 0.001)
    yield
