"""A frame's way to its handler and back: header, version rules, decode, handle, encode, send.

Answers leave in the order of the requests. While one is a `Delayed`, the peer does not take what was sent, or its
client is above a quota (`security.quotas` says for how long), the connection is blocked and not read; only produces
that wait for their followers let others be served (`due_answers`).

What may take longer than a millisecond runs in time slices (`step_runner`): handlers that are generators, and the
decoding and encoding of messages with more than `ENTRIES_IN_ONE_GO` entries, of which few are in hand at a time
(`large_requests`).
Whatever cannot be answered closes the connection with one log line that names the peer and the reason, and concerns
nobody else.

Source: SocketServer, RequestChannel and KafkaApis of Apache Kafka 4.3; KIP-511 for ApiVersions.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import Any, NamedTuple, TypeAlias

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.handlers.api import Answer, CloseConnection, ListenerRole, RequestContext, Served
from ottla.handlers.api_versions import unsupported_version_response
from ottla.handlers.catalog import find, is_served_to
from ottla.handlers.services import Services
from ottla.network.connection import Connection, Guard
from ottla.network.fair_scheduler import FairScheduler
from ottla.network.large_requests import ENTRIES_IN_ONE_GO, RESPONSE_BYTES_MAX, LargeRequests
from ottla.network.response_queue import Finish, ResponseQueue
from ottla.network.step_runner import StepRunner
from ottla.network.throttling import ThrottledConnections
from ottla.ports import Network
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.quoting import one_line
from ottla.wire.client_id import decode_malformed
from ottla.wire.codec import Message
from ottla.wire.codec.disposal import empty_message_in_steps, free_message_in_steps
from ottla.wire.codec.message import Splice, splice_chunks
from ottla.wire.codec.primitives import TooManyEntriesError, skip_header_tags
from ottla.wire.error_response import bare_error_response
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version

logger = logging.getLogger(__name__)

_FIXED_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
_CLIENT_ID_LENGTH = struct.Struct(">h")
_RESPONSE_START = struct.Struct(">ii")  # size, correlation id
_SIZE = struct.Struct(">i")
# Looked up in their classes for every request they would cost as much as calls.
_BROKER, _PRODUCE = ListenerRole.BROKER, ApiKey.PRODUCE


class _Running(NamedTuple):
    """What has not ended with its first slice; ``result`` delivers its answer."""

    result: "Delayed[Any]"


class _Encoded(NamedTuple):
    """A response that was encoded in slices."""

    out: bytearray
    splices: list[Splice]


_Outcome: TypeAlias = "Answer | _Running | _Encoded"


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

    def __init__(
        self,
        services: Services,
        network: Network,
        *,
        on_close: Callable[[Connection, str], None],
        privileged_listeners: frozenset[str] = frozenset(),
    ) -> None:
        self._privileged_listeners = privileged_listeners
        self._services = services
        self._entries_max = services.config.ottla_request_entries_max
        self._clock = services.clock
        self._network = network
        self._quotas = services.quotas
        self.muting = ThrottledConnections(on_over=self._unmuted)
        self.turns = FairScheduler(services.clock, on_turn=self._go_on_unless_held)
        self.steps = StepRunner(services.clock)
        self.large_requests = LargeRequests()
        self._large_requests_of_nodes = LargeRequests()
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
        context = RequestContext(api_key, version, correlation_id, client_id, info, self._services, now_ms)
        if self._quotas.is_enabled:
            context.charge = self._quotas.begin(api_key, info.principal, client_id, is_exempt=_is_exempt(context))
            context.size_bytes = len(frame)
        answer: _Outcome
        try:
            # Bytes behind the request are ignored, as in Kafka: librdkafka sends some with CreateTopics.
            request, _ = route.request_type.decode_from(frame, version, position, entries_max=ENTRIES_IN_ONE_GO)
        except TooManyEntriesError:
            answer = self._decode_in_slices(connection, route, context, frame, position)
        else:
            answer = self._handle(connection, route, context, request)
            if isinstance(answer, GeneratorType):
                answer = self._run_handler(connection, route, context, frame, position, answer)
        if isinstance(answer, Message) and not connection.due:
            rest = self._respond(connection, route, context, answer)
            if rest is None:
                return
            answer = _Running(rest)
        self._answer_later(connection, route, context, answer)

    def _handle(self, connection: Connection, route: Route, context: RequestContext, request: Message) -> Answer:
        try:
            return route.served.handler(context, request)
        except ProtocolError:
            raise
        except Exception as error:
            return self._handler_error(connection, route, error)

    def _handler_error(self, connection: Connection, route: Route, error: Exception) -> Answer:
        if isinstance(error, KafkaError):
            return self._error_response(connection, route, error)
        # A defect of ours must not take the node down, and must not leave the client waiting.
        logger.error("%s v%d from %s failed", route.api_name, route.version, connection.info.peer, exc_info=error)
        return self._error_response(connection, route, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    # --- in time slices --------------------------------------------------------------------------------------------

    def _decode_in_slices(
        self, connection: Connection, route: Route, context: RequestContext, frame: memoryview, position: int
    ) -> _Outcome:
        """Decode a request that has many entries, handle it, and encode its response, all in one place."""

        def steps(frame: memoryview) -> Steps[_Outcome]:
            request = object.__new__(route.request_type)
            try:
                yield from route.request_type.decode_in_steps(
                    frame, route.version, position, entries_max=self._entries_max, into=request
                )
            except ProtocolError:
                yield from empty_message_in_steps(request)
                raise
            freed = free_message_in_steps(request)
            answer = self._handle(connection, route, context, request)
            del request
            # A result that is there need not give up the place: it would wait to be encoded next to those of others.
            while True:
                if isinstance(answer, GeneratorType):
                    answer = yield from answer
                elif isinstance(answer, Delayed) and answer.is_complete:
                    answer = answer.value
                else:
                    break
            # Before the place is given to the next: otherwise what both take would be in memory at a time.
            yield from freed
            if not isinstance(answer, Message):
                return answer
            if context.charge is not None:
                self._settle(connection, context, answer)
            return (yield from self._encode_in_steps(route, context, answer))

        in_place = self._large(connection).in_place(steps(connection.keep_frame(frame)))
        return self._run(connection, route, context, _with_frame(connection, in_place))

    def _large(self, connection: Connection) -> LargeRequests:
        """Return where large messages of ``connection`` wait: those of nodes apart from those of clients."""
        info = connection.info
        is_node = info.role is ListenerRole.CONTROLLER or info.follower_id is not None
        if is_node or info.listener in self._privileged_listeners:
            return self._large_requests_of_nodes
        return self.large_requests

    def _run_handler(
        self,
        connection: Connection,
        route: Route,
        context: RequestContext,
        frame: memoryview,
        position: int,
        steps: Steps[Answer],
    ) -> _Outcome:
        """Run a handler that is a generator; only a Produce has views on its frame, which must then stay as it is."""
        if context.api_key == _PRODUCE:
            kept = connection.keep_frame(frame)
            if kept is not frame:
                # The generator has not started: nothing has been appended.
                request, _ = route.request_type.decode_from(kept, route.version, position)
                again = self._handle(connection, route, context, request)
                if not isinstance(again, GeneratorType):
                    connection.release_frame()
                    return again
                steps = again
            return self._run(connection, route, context, _with_frame(connection, steps))
        return self._run(connection, route, context, steps)

    def _run(self, connection: Connection, route: Route, context: RequestContext, steps: Steps[Any]) -> _Outcome:
        """Run ``steps`` in slices; return their result where the first slice was enough."""
        charge = context.charge
        on_slice = None if charge is None else charge.work
        result = self.steps.start(self._guarded(connection, route, steps), on_slice=on_slice)
        return result.value if result.is_complete else _Running(result)

    def _guarded(self, connection: Connection, route: Route, steps: Steps[Any]) -> Steps[Any]:
        """Run ``steps``; what they raise becomes an answer, as where a handler is called."""
        try:
            return (yield from steps)
        except ProtocolError as error:
            return CloseConnection(f"sent bytes that are no request: {error}")
        except Exception as error:
            return self._handler_error(connection, route, error)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _answer_later(self, connection: Connection, route: Route, context: RequestContext, answer: _Outcome) -> None:
        """Take what is no answer that may leave now."""
        if answer is None or isinstance(answer, CloseConnection):
            self._finish(connection, route, context, answer)
            return
        if context.charge is not None:
            context.charge.handled()
        is_running = isinstance(answer, _Running)
        if isinstance(answer, _Running):
            delayed = answer.result
        else:
            delayed = answer if isinstance(answer, Delayed) else Delayed.of(answer)
        finish = partial(self._finish, connection, route, context)
        self._await(connection, delayed, finish, holds_up=context.api_key != _PRODUCE, is_running=is_running)

    def _finish(
        self, connection: Connection, route: Route, context: RequestContext, answer: _Outcome
    ) -> "Delayed[Any] | None":
        """Do what ``answer`` is; return None, or what has to complete before it can be finished with that."""
        if isinstance(answer, Message):
            return self._respond(connection, route, context, answer)
        if isinstance(answer, GeneratorType):
            return _result_of(self._run(connection, route, context, answer))
        if isinstance(answer, Delayed):
            return answer
        if isinstance(answer, _Encoded):
            self._send_response(connection, route, context, *answer)
        elif isinstance(answer, CloseConnection):
            self._on_close(connection, answer.reason)
        elif context.charge is not None:
            self._mute(connection, context.charge.settle(produced_bytes=context.size_bytes, is_answered=False))
        return None

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
        answer: "Delayed[Any]",
        finish: Finish,
        *,
        holds_up: bool,
        is_running: bool = False,
    ) -> None:
        """Send the answer when it is there and those before it have left."""
        due = connection.due
        if due is None:
            due = connection.due = ResponseQueue()
        due.add(answer, finish, holds_up=holds_up, is_running=is_running)
        if due.hold_up:
            connection.is_blocked = True
            self._network.pause_reading(connection.info.connection)
        answer.on_complete(lambda _: self._answer_due(connection, due))

    def _answer_due(self, connection: Connection, due: ResponseQueue) -> None:
        while not connection.is_closed and due.is_next_complete:
            rest = due.finish_next()
            if rest is not None and not rest.is_complete:
                connection.is_blocked = True
                self._network.pause_reading(connection.info.connection)
                rest.on_complete(lambda _: self._answer_due(connection, due))
                return
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

    def _mute(self, connection: Connection, throttle_ms: int) -> None:
        if throttle_ms > 0 and not connection.is_closed:
            self.muting.mute(connection, self._clock.monotonic_ms() + throttle_ms)
            self._network.pause_reading(connection.info.connection)

    def _unmuted(self, connection: Connection) -> None:
        # Whoever was held back for a long time has not been idle.
        connection.last_active_ms = self._clock.monotonic_ms()
        self._go_on_unless_held(connection)

    def _respond(
        self, connection: Connection, route: Route, context: RequestContext, response: Message
    ) -> "Delayed[Any] | None":
        """Send the response; return None, or what `_finish` takes where it has to be encoded in slices."""
        charge = context.charge
        began_ns = 0
        if charge is not None:
            self._settle(connection, context, response)
            began_ns = self._clock.monotonic_ns()
        # As in `_response_start`, whose call would cost as much as it does.
        out = bytearray(_RESPONSE_START.pack(0, context.correlation_id))
        if route.has_flexible_response_header:
            out.append(0)
        splices: list[Splice] = []
        try:
            response.write(route.version, out, splices, entries_max=ENTRIES_IN_ONE_GO)
        except TooManyEntriesError:
            steps = self._large(connection).in_place(self._encode_in_steps(route, context, response))
            return _result_of(self._run(connection, route, context, steps))
        except ValueError as error:
            # A defect of ours, again: only this client may notice. A traceback would be of the codec, and say no more.
            logger.error("%s v%d cannot be answered: %s", route.api_name, route.version, one_line(str(error)))
            self._on_close(connection, f"{route.api_name} v{route.version} got an answer that it cannot carry")
            return None
        self._send_response(connection, route, context, out, splices)
        if charge is not None:
            charge.sent(began_ns)
        return None

    def _encode_in_steps(self, route: Route, context: RequestContext, response: Message) -> Steps[_Outcome]:
        encoded = _Encoded(self._response_start(route, context), [])
        try:
            for _ in response.write_in_steps(route.version, encoded.out, encoded.splices):
                if len(encoded.out) > RESPONSE_BYTES_MAX:
                    return CloseConnection(
                        f"asked for more than {RESPONSE_BYTES_MAX} bytes with one {route.api_name}; ask for less"
                    )
                yield None
        except ValueError as error:
            logger.error("%s v%d cannot be answered: %s", route.api_name, route.version, one_line(str(error)))
            return CloseConnection(f"{route.api_name} v{route.version} got an answer that it cannot carry")
        yield from empty_message_in_steps(response)
        return encoded

    def _settle(self, connection: Connection, context: RequestContext, response: Message) -> None:
        """Hold the answer against its client's quotas, say in it how long it is to wait, and mute it for as long."""
        assert context.charge is not None
        by_controller_ms: int = getattr(response, "throttle_time_ms", 0)
        produced_bytes = context.size_bytes if context.api_key == _PRODUCE else 0
        throttle_ms = context.charge.settle(produced_bytes=produced_bytes, by_controller_ms=by_controller_ms)
        if throttle_ms > 0:
            if "throttle_time_ms" in response.fields:
                response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]
            self._mute(connection, throttle_ms)

    def _response_start(self, route: Route, context: RequestContext) -> bytearray:
        out = bytearray(_RESPONSE_START.pack(0, context.correlation_id))
        if route.has_flexible_response_header:
            out.append(0)
        return out

    def _send_response(
        self,
        connection: Connection,
        route: Route,
        context: RequestContext,
        out: bytearray,
        splices: list[Splice],
    ) -> None:
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


def _with_frame(connection: Connection, steps: Steps[Any]) -> Steps[Any]:
    """Run ``steps`` while the frame is there that the connection keeps."""
    try:
        return (yield from steps)
    finally:
        connection.release_frame()


def _result_of(answer: _Outcome) -> "Delayed[Any]":
    return answer.result if isinstance(answer, _Running) else Delayed.of(answer)


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
