"""A frame's way to its handler and back: header, version rules, decode, handle, encode, send.

Responses leave in the order of the requests. While one is a `Delayed`, the peer does not take what was sent, or its
client is above a quota (`security.quotas` says for how long), the connection is blocked and not read (`flow_control`);
only produces that wait for their followers let others be served (`response_queue`).

What may take longer than a millisecond runs in time slices (`step_runner`): handlers that are generators, and the
decoding and encoding of messages with more than `ENTRIES_IN_ONE_GO` entries, of which few are in hand at a time
(`large_requests`).
A request that cannot be responded to closes its connection, with one log line that names the peer and the reason;
other connections are not affected.

Source: SocketServer, RequestChannel and KafkaApis of Apache Kafka 4.3; KIP-511 for ApiVersions.
"""

import logging
import struct
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any, NamedTuple, TypeAlias

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.handlers.api import CloseConnection, HandlerResult, ListenerRole, RequestContext
from ottla.handlers.api_versions import unsupported_version_response
from ottla.handlers.services import Services
from ottla.network.connection import Connection, Guard
from ottla.network.flow_control import FlowControl
from ottla.network.large_requests import ENTRIES_IN_ONE_GO, RESPONSE_BYTES_MAX, LargeRequests
from ottla.network.routes import FIXED_HEADER, Route, find_route, read_client_id
from ottla.network.step_runner import StepRunner
from ottla.ports import Network
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.quoting import one_line
from ottla.wire.codec import Message
from ottla.wire.codec.disposal import free_in_steps, lists_of, take_lists
from ottla.wire.codec.message import Splice, splice_chunks
from ottla.wire.codec.primitives import TooManyEntriesError, skip_header_tags
from ottla.wire.error_response import bare_error_response
from ottla.wire.messages.registry import ApiKey

logger = logging.getLogger(__name__)

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


_Outcome: TypeAlias = "HandlerResult | _Running | _Encoded"


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
        self._quotas = services.quotas
        self.flow = FlowControl(
            services.clock, network, announce_appends=services.replicas.announce_appends, on_close=on_close
        )
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
        api_key, version, correlation_id = FIXED_HEADER.unpack_from(frame)
        info = connection.info
        # A hash of the role would cost more than this.
        routes = self._broker_routes if info.role is _BROKER else self._controller_routes
        route = routes.get(api_key << 16 | version)
        if route is None:
            route = find_route(info.role, api_key, version)
            if route is None:
                self._reject_version(connection, api_key, version, correlation_id)
                return
            routes[api_key << 16 | version] = route
        client_id, position = read_client_id(frame)
        if route.has_flexible_request_header:
            position = skip_header_tags(frame, position)
        now_ms = self._clock.monotonic_ms()
        connection.last_active_ms = now_ms
        route.requests += 1
        route.request_bytes += len(frame)
        context = RequestContext(api_key, version, correlation_id, client_id, info, self._services, now_ms)
        if self._quotas.is_enabled:
            context.charge = self._quotas.start_charge(
                api_key, info.principal, client_id, is_exempt=_is_exempt(context)
            )
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
        if isinstance(answer, Message) and not connection.responses:
            rest = self._respond(connection, route, context, answer)
            if rest is None:
                return
            answer = _Running(rest)
        self._respond_later(connection, route, context, answer)

    def _handle(self, connection: Connection, route: Route, context: RequestContext, request: Message) -> HandlerResult:
        try:
            return route.served.handler(context, request)
        except ProtocolError:
            raise
        except Exception as error:
            return self._handler_error(connection, route, error)

    def _handler_error(self, connection: Connection, route: Route, error: Exception) -> HandlerResult:
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
        if route.served.has_few_entries:
            return self._error_response(connection, route, _too_many_entries(route))

        def steps(frame: memoryview) -> Steps[_Outcome]:
            request: Message | None = object.__new__(route.request_type)
            lists: list[list[Any]] = []
            try:
                assert request is not None
                fault = yield from self._decode_in_steps(route, frame, position, request)
                lists = lists_of(request)
                answer: HandlerResult = None
                if fault is None:
                    answer = self._handle(connection, route, context, request)
                request = None
                # A result that is there keeps the place: it would wait to be encoded next to those of others.
                while True:
                    if isinstance(answer, GeneratorType):
                        answer = yield from answer
                    elif isinstance(answer, Delayed) and answer.is_complete:
                        answer = answer.value
                    else:
                        break
                # Before the place is given to the next: otherwise what both take would be in memory at a time.
                yield from free_in_steps(lists)
            finally:
                self._free_later(lists or ([] if request is None else lists_of(request)))
            if fault is not None:
                return CloseConnection(f"sent bytes that are no request: {fault}")
            if not isinstance(answer, Message):
                return answer
            if context.charge is not None:
                self._settle(connection, context, answer)
            return (yield from self._encode_in_steps(route, context, answer))

        in_place = self._large(connection).in_place(steps(connection.keep_frame(frame)))
        return self._run(connection, route, context, _with_frame(connection, in_place))

    def _decode_in_steps(self, route: Route, frame: memoryview, position: int, request: Message) -> Steps[str | None]:
        """Fill ``request``; return what is wrong with the frame, None for nothing.

        Without the error itself: frames of its traceback keep the entries, and then all of them are freed at once.
        """
        try:
            yield from route.request_type.decode_in_steps(
                frame, route.version, position, entries_max=self._entries_max, into=request
            )
        except ProtocolError as error:
            return str(error)
        return None

    def _free_later(self, lists: list[list[Any]]) -> None:
        """Free what is left of a message whose connection has ended, which ends the steps that were to free it."""
        if lists:
            self.steps.start(free_in_steps(lists))

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
        steps: Steps[HandlerResult],
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
        on_slice = None if charge is None else charge.add_work_time
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

    def _respond_later(self, connection: Connection, route: Route, context: RequestContext, answer: _Outcome) -> None:
        """Take what is no answer that may leave now."""
        if answer is None or isinstance(answer, CloseConnection):
            self._finish(connection, route, context, answer)
            return
        if context.charge is not None:
            context.charge.record_handler_return()
        is_running = isinstance(answer, _Running)
        if isinstance(answer, _Running):
            delayed = answer.result
        else:
            delayed = answer if isinstance(answer, Delayed) else Delayed.of(answer)
        finish = partial(self._finish, connection, route, context)
        self.flow.await_response(
            connection, delayed, finish, blocks_requests=context.api_key != _PRODUCE, is_running=is_running
        )

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
            self.flow.throttle(connection, context.charge.settle(produced_bytes=context.size_bytes, has_response=False))
        return None

    def _reject_version(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> None:
        """Answer ApiVersions in version 0, which everyone can read (KIP-511); close on anything else."""
        if api_key != ApiKey.API_VERSIONS:
            self._on_close(connection, f"asked for API key {api_key} in version {version}, which is not served here")
            return

        def send(response: Message) -> None:
            out = bytearray(_RESPONSE_START.pack(0, correlation_id))
            response.write(0, out, [])
            _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
            self.flow.send(connection, [out])

        self.flow.await_response(connection, Delayed.of(unsupported_version_response()), send, blocks_requests=True)

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
            charge.record_response_write(began_ns)
        return None

    def _encode_in_steps(self, route: Route, context: RequestContext, response: Message) -> Steps[_Outcome]:
        encoded = _Encoded(self._response_start(route, context), [])
        lists: list[list[Any]] = []
        try:
            for _ in response.write_in_steps(route.version, encoded.out, encoded.splices):
                if len(encoded.out) > RESPONSE_BYTES_MAX:
                    return CloseConnection(
                        f"asked for more than {RESPONSE_BYTES_MAX} bytes with one {route.api_name}; ask for less"
                    )
                yield None
            lists = take_lists(response)
            yield from free_in_steps(lists)
        except ValueError as error:
            logger.error("%s v%d cannot be answered: %s", route.api_name, route.version, one_line(str(error)))
            return CloseConnection(f"{route.api_name} v{route.version} got an answer that it cannot carry")
        finally:
            self._free_later(lists or take_lists(response))
        return encoded

    def _settle(self, connection: Connection, context: RequestContext, response: Message) -> None:
        """Hold the answer against its client's quotas, say in it how long it is to wait, and mute it for as long."""
        assert context.charge is not None
        controller_throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        produced_bytes = context.size_bytes if context.api_key == _PRODUCE else 0
        throttle_ms = context.charge.settle(
            produced_bytes=produced_bytes, controller_throttle_ms=controller_throttle_ms
        )
        if throttle_ms > 0:
            if "throttle_time_ms" in response.fields:
                response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]
            self.flow.throttle(connection, throttle_ms)

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
        # A connection that waited for a long time has not been idle.
        connection.last_active_ms = now_ms
        self.flow.send(connection, splice_chunks(out, splices) if splices else [out])

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


def _too_many_entries(route: Route) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"{route.api_name} may list {ENTRIES_IN_ONE_GO} entries over all of its arrays.",
    )


def _is_exempt(context: RequestContext) -> bool:
    """Return whether no quota holds, because it is not known yet whose, or a replica of the quorum fetches.

    One of a partition says so in its handler.
    """
    login = context.connection.login
    if login is not None and not login.is_complete:
        return True
    return context.api_key == ApiKey.FETCH and context.connection.role is ListenerRole.CONTROLLER
