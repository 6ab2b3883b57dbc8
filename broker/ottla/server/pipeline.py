"""A frame's way to its handler and back: header, version rules, decode, handle, encode, send.

Answers leave in the order of the requests. While one is a `Delayed`, the peer does not take what was sent, or its
client is above a quota (`security.quotas` says for how long), the connection is blocked and not read; only produces
that wait for their followers let others be served (`due_answers`).
Whatever cannot be answered closes the connection with one log line that names the peer and the reason, and concerns
nobody else.

Source: SocketServer, RequestChannel and KafkaApis of Apache Kafka 4.3; KIP-511 for ApiVersions.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ottla.controller.error_response import bare_error_response
from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.handlers.api import Answer, CloseConnection, ListenerRole, RequestContext, Served
from ottla.handlers.api_versions import unsupported_version_response
from ottla.handlers.catalog import find, is_served_to
from ottla.handlers.services import Services
from ottla.ports import Network
from ottla.purgatory import Delayed
from ottla.quoting import one_line
from ottla.server.connection import Connection, Guard
from ottla.server.due_answers import DueAnswers
from ottla.server.muting import Muting
from ottla.server.turns import Turns
from ottla.wire.client_id import decode_malformed
from ottla.wire.codec import Message
from ottla.wire.codec.message import Splice, splice_chunks
from ottla.wire.codec.primitives import skip_header_tags
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version

logger = logging.getLogger(__name__)

_FIXED_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
_CLIENT_ID_LENGTH = struct.Struct(">h")
_RESPONSE_START = struct.Struct(">ii")  # size, correlation id
_SIZE = struct.Struct(">i")
# Looked up in their classes for every request they would cost as much as calls.
_BROKER, _PRODUCE = ListenerRole.BROKER, ApiKey.PRODUCE


@dataclass(slots=True)
class Route:
    """One API in one version, resolved once: what its requests need, and how many there were."""

    served: Served
    api_name: str
    version: int
    request_type: type[Message]
    has_flexible_request_header: bool
    has_flexible_response_header: bool
    requests: int = 0
    errors: int = 0
    total_time_ms: int = 0
    request_bytes: int = 0
    response_bytes: int = 0


class Pipeline:
    """Serves the frames of all of a node's client connections."""

    def __init__(self, services: Services, network: Network, *, on_close: Callable[[Connection, str], None]) -> None:
        self._services = services
        self._entries_max = services.config.ottla_request_entries_max
        self._clock = services.clock
        self._network = network
        self._quotas = services.quotas
        self.muting = Muting(on_over=self._unmuted)
        self.turns = Turns(services.clock, on_turn=self._go_on_unless_held)
        self._on_close = on_close
        self._broker_routes: dict[int, Route] = {}
        self._controller_routes: dict[int, Route] = {}

    @property
    def routes(self) -> list[Route]:
        """Every API version that was asked for so far, for the metrics."""
        return [*self._broker_routes.values(), *self._controller_routes.values()]

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; afterwards ``frame`` is not looked at any more."""
        try:
            if connection.guard is None or not self._is_stopped(connection, connection.guard, frame):
                self._serve(connection, frame)
        except ProtocolError as error:
            self._on_close(connection, f"sent bytes that are no request: {error}")
        except struct.error:
            self._on_close(connection, f"sent a frame of {len(frame)} bytes, too few for a request header")

    def _is_stopped(self, connection: Connection, guard: Guard, frame: memoryview) -> bool:
        try:
            return guard.stops(frame)
        except (ProtocolError, struct.error):
            raise
        except Exception:
            # A defect of ours, and nobody may get in by it, nor take the node down.
            logger.exception("the login of %s on %s failed", connection.info.peer, connection.info.listener)
            self._on_close(connection, "its login could not be gone on with")
            return True

    def _serve(self, connection: Connection, frame: memoryview) -> None:
        api_key, version, correlation_id = _FIXED_HEADER.unpack_from(frame)
        info = connection.info
        # A hash of the role would cost more than this.
        routes = self._broker_routes if info.role is _BROKER else self._controller_routes
        route = routes.get(api_key << 16 | version)
        if route is None:
            route = self._find_route(info.role, routes, api_key, version)
            if route is None:
                self._refuse_version(connection, api_key, version, correlation_id)
                return
        client_id, position = _read_client_id(frame)
        if route.has_flexible_request_header:
            position = skip_header_tags(frame, position)
        now_ms = self._clock.monotonic_ms()
        connection.last_active_ms = now_ms
        route.requests += 1
        route.request_bytes += len(frame)
        # Bytes behind the request are ignored, as in Kafka: librdkafka sends some with CreateTopics.
        request, _ = route.request_type.decode_from(frame, version, position, entries_max=self._entries_max)
        context = RequestContext(api_key, version, correlation_id, client_id, info, self._services, now_ms)
        respond = self._respond
        if self._quotas.is_enabled:
            context.charge = self._quotas.begin(api_key, info.principal, client_id, is_exempt=_is_exempt(context))
            respond = self._respond_charged
            context.size_bytes = len(frame)
        answer: Answer
        try:
            answer = route.served.handler(context, request)
        except KafkaError as error:
            answer = self._error_response(connection, route, error)
        except ProtocolError:
            raise
        except Exception:
            # A defect of ours must not take the node down, and must not leave the client waiting.
            logger.exception("%s v%d from %s failed", route.api_name, version, connection.info.peer)
            answer = self._error_response(connection, route, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        if isinstance(answer, Message) and not connection.due:
            respond(connection, route, context, answer)
        else:
            self._answer_later(connection, context, answer, partial(respond, connection, route, context))

    def _answer_later(
        self, connection: Connection, context: RequestContext, answer: Answer, respond: Callable[[Message], None]
    ) -> None:
        """Take what is no answer that may leave now."""
        charge = context.charge
        if isinstance(answer, CloseConnection):
            self._on_close(connection, answer.reason)
        elif answer is not None:
            if charge is not None:
                charge.handled()
            delayed = Delayed.of(answer) if isinstance(answer, Message) else answer
            self._await(connection, delayed, respond, holds_up=context.api_key != _PRODUCE)
        elif charge is not None:
            self._mute(connection, charge.settle(produced_bytes=context.size_bytes, is_answered=False))

    def _find_route(self, role: ListenerRole, routes: dict[int, Route], api_key: int, version: int) -> Route | None:
        served = find(api_key, version)
        if served is None or not is_served_to(role, ApiKey(api_key)):
            return None
        key = ApiKey(api_key)
        route = Route(
            served=served,
            api_name=request_type(key).__name__.removesuffix("Request"),
            version=version,
            request_type=request_type(key),
            has_flexible_request_header=request_header_version(key, version) == 2,
            has_flexible_response_header=response_header_version(key, version) == 1,
        )
        routes[api_key << 16 | version] = route
        return route

    def _refuse_version(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> None:
        """Answer ApiVersions in version 0, which everyone can read (KIP-511); close on anything else."""
        if api_key != ApiKey.API_VERSIONS:
            self._on_close(connection, f"asked for API key {api_key} in version {version}, which is not served here")
            return

        def send(response: Message) -> None:
            out = bytearray(_RESPONSE_START.pack(0, correlation_id))
            response.write(0, out, [])
            _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
            self._send(connection, [out])

        self._await(connection, Delayed.of(unsupported_version_response()), send, holds_up=True)

    def _await(
        self,
        connection: Connection,
        answer: "Delayed[Message]",
        send: Callable[[Message], None],
        *,
        holds_up: bool,
    ) -> None:
        """Send the answer when it is there and those before it have left."""
        due = connection.due
        if due is None:
            due = connection.due = DueAnswers()
        due.add(answer, send, holds_up=holds_up)
        if due.hold_up:
            connection.is_blocked = True
            self._network.pause_reading(connection.info.connection)
        answer.on_complete(lambda _: self._answer_due(connection, due))

    def _answer_due(self, connection: Connection, due: DueAnswers) -> None:
        while not connection.is_closed and due.send_next():
            pass
        if connection.is_blocked:
            self._go_on_unless_held(connection)

    def drained(self, connection: Connection) -> None:
        """The peer has taken what was queued for it: serve it again."""
        connection.is_full = False
        if self.turns and not connection.has_had_turn:
            # Whoever reads a little at a time gets no more turns by that than the others.
            self.turns.wait(connection)
        else:
            self._go_on_unless_held(connection)

    def await_turn(self, connection: Connection) -> None:
        """Go on with the frames of ``connection`` when others have been served; nothing is read meanwhile."""
        self.turns.wait(connection)
        self._network.pause_reading(connection.info.connection)

    def _go_on_unless_held(self, connection: Connection) -> None:
        if connection.is_full or connection.is_muted or connection.has_had_turn or connection.is_closed:
            return
        if connection.due is None or not connection.due.hold_up:
            connection.is_blocked = False
            self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Serve what arrived meanwhile, then read again unless that blocked the connection anew."""
        try:
            connection.resume()
        except ProtocolError as error:
            self._on_close(connection, str(error))
        self._services.replicas.announce_appends()
        if connection.has_had_turn and not connection.is_closed:
            self.await_turn(connection)
        if not connection.is_blocked and not connection.is_waiting and not connection.is_closed:
            self._network.resume_reading(connection.info.connection)

    def _respond_charged(
        self, connection: Connection, route: Route, context: RequestContext, response: Message
    ) -> None:
        """Hold the answer against its client's quotas, tell how long it is to wait, and mute it for as long."""
        charge = context.charge
        assert charge is not None, "made where there are quotas"
        by_controller_ms: int = getattr(response, "throttle_time_ms", 0)
        produced_bytes = context.size_bytes if context.api_key == ApiKey.PRODUCE else 0
        throttle_ms = charge.settle(produced_bytes=produced_bytes, by_controller_ms=by_controller_ms)
        if throttle_ms > 0:
            if "throttle_time_ms" in response.fields:
                response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]
            self._mute(connection, throttle_ms)
        began_ns = self._clock.monotonic_ns()
        self._respond(connection, route, context, response)
        charge.sent(began_ns)

    def _mute(self, connection: Connection, throttle_ms: int) -> None:
        if throttle_ms > 0 and not connection.is_closed:
            self.muting.mute(connection, self._clock.monotonic_ms() + throttle_ms)
            self._network.pause_reading(connection.info.connection)

    def _unmuted(self, connection: Connection) -> None:
        # Whoever was held back for a long time has not been idle.
        connection.last_active_ms = self._clock.monotonic_ms()
        self._go_on_unless_held(connection)

    def _respond(self, connection: Connection, route: Route, context: RequestContext, response: Message) -> None:
        out = bytearray(_RESPONSE_START.pack(0, context.correlation_id))
        if route.has_flexible_response_header:
            out.append(0)
        splices: list[Splice] = []
        try:
            response.write(route.version, out, splices)
        except ValueError as error:
            # A defect of ours, again: only this client may notice. A traceback would be of the codec, and say no more.
            logger.error("%s v%d cannot be answered: %s", route.api_name, route.version, one_line(str(error)))
            self._on_close(connection, f"{route.api_name} v{route.version} got an answer that it cannot carry")
            return
        size = len(out) - _SIZE.size
        if splices:
            size += sum(len(data) for _, data in splices)
        _SIZE.pack_into(out, 0, size)
        route.response_bytes += size
        now_ms = self._clock.monotonic_ms()
        route.total_time_ms += now_ms - context.received_at_ms
        # Whoever waited for a long time has not been idle.
        connection.last_active_ms = now_ms
        self._send(connection, splice_chunks(out, splices) if splices else [out])

    def _send(self, connection: Connection, chunks: list) -> None:  # type: ignore[type-arg]
        if not self._network.send(connection.info.connection, chunks):
            connection.is_blocked = connection.is_full = True
            self._network.pause_reading(connection.info.connection)

    def _error_response(self, connection: Connection, route: Route, error: KafkaError) -> Message | None:
        """Return a response that carries only the error; close where the response has no place for one."""
        route.errors += 1
        made = bare_error_response(route.served.api_key, error)
        if made is None:
            self._on_close(connection, f"{route.api_name} v{route.version} cannot report {error}")
        return made


def _is_exempt(context: RequestContext) -> bool:
    """Return whether no quota holds, because it is not known yet whose, or a replica of the quorum fetches.

    One of a partition says so in its handler.
    """
    login = context.connection.login
    if login is not None and not login.is_complete:
        return True
    return context.api_key == ApiKey.FETCH and context.connection.role is ListenerRole.CONTROLLER


def _read_client_id(frame: memoryview) -> tuple[str | None, int]:
    """Return the header's client id and the position behind it."""
    (size,) = _CLIENT_ID_LENGTH.unpack_from(frame, _FIXED_HEADER.size)
    start = _FIXED_HEADER.size + _CLIENT_ID_LENGTH.size
    if size < 0:
        return None, start
    if start + size > len(frame):
        raise ProtocolError(f"the client id claims {size} bytes with {len(frame) - start} left")
    data = frame[start : start + size]
    try:
        return str(data, "utf-8"), start + size
    except UnicodeDecodeError:
        return decode_malformed(data), start + size
