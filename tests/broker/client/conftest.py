"""A scripted broker and a scripted issuer of tokens, on real sockets."""

import asyncio
import http.server
import json
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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

CLIENT_ID, CLIENT_SECRET = "a client", "its s&cré+t"
TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"

ScriptedResponse = Message | None
Script = Callable[[Any], ScriptedResponse]


class ScriptedBroker:
    """Listens on a free port; ``scripts`` maps a request class to the function that responds to it.

    A script returns the response, None for no response at all, or raises ConnectionError to close the connection.
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
        """Return the received requests of one class."""
        return [sent for sent in self.requests if isinstance(sent, request)]

    def serve_topic(self, name: str, leaders: list[int], brokers: "list[ScriptedBroker] | None" = None) -> None:
        """Respond to Metadata with one topic whose partitions have these leaders."""
        nodes = brokers or [self]

        def respond(request: MetadataRequest) -> MetadataResponse:
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

        self.scripts[MetadataRequest] = respond

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self._respond(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _respond(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        key, version = ApiKey(int.from_bytes(frame[:2], "big")), int.from_bytes(frame[2:4], "big")
        header, position = RequestHeader.decode_from(frame, request_header_version(key, version))
        if key is ApiKey.API_VERSIONS and version > self.versions[key][1]:
            response: ScriptedResponse = ApiVersionsResponse(error_code=35, api_keys=self._api_keys())
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
    """Remove the backoff of retries: tests run as fast as their scripts."""
    from ottla.client import cluster, consumer, group_member, producer

    with _patched(monkeypatch, cluster, consumer, producer):
        monkeypatch.setattr(group_member, "HEARTBEAT_INTERVAL_S", 0.005)
        yield


@contextmanager
def _patched(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> Iterator[None]:
    for module in modules:
        monkeypatch.setattr(module, "BACKOFF_FIRST_S", 0.001)
    yield


@dataclass
class TokenRequest:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Issuer:
    """Listens for HTTPS. ``responses`` are statuses and bodies; the last one is repeated."""

    ca: Path
    port: int = 0
    responses: list[tuple[int, bytes]] = field(default_factory=list)
    delay_s: float = 0
    requests: list[TokenRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/token?tenant=7"

    def gives(self, *tokens: str, **more: Any) -> None:
        self.responses = [(200, json.dumps({"access_token": token, **more}).encode()) for token in tokens]

    def properties(self, *, module: str | None = None, **more: str) -> dict[str, str]:
        """Return the properties of a client that gets its tokens from this issuer."""
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{self.ca}"'
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{TOKEN_MODULE} {trust if module is None else module};",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
            **{key.replace("_", "."): text for key, text in more.items()},
        }


@pytest.fixture
def issuer(authority: Any, tmp_path: Path) -> Iterator[Issuer]:
    """An issuer that returns the same token to every client, valid for ten minutes."""
    issued = authority.issue()
    (tmp_path / "issuer.pem").write_text(issued.key + issued.chain)
    (tmp_path / "issuer-ca.pem").write_text(authority.pem)
    issuer = Issuer(tmp_path / "issuer-ca.pem")
    issuer.gives("a.first.token", expires_in=600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "issuer.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(issuer))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign, assignment]  # a client that closes early is no error
    issuer.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(issuer: Issuer) -> Callable[..., http.server.BaseHTTPRequestHandler]:
    class Responding(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            issuer.requests.append(TokenRequest(self.requestline, dict(self.headers), body))
            time.sleep(issuer.delay_s)
            status, body = issuer.responses[0]
            if len(issuer.responses) > 1:
                del issuer.responses[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == http.HTTPStatus.FOUND:
                self.send_header("Location", issuer.url)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Responding
