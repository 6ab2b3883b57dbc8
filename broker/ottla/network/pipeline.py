"""`Pipeline`: serves frames: header, version rules, decode, handle, encode, send.

Responses leave in the order of the requests. While a response is a `Delayed`, the peer does not read its responses, or
its client is above a quota (`security.quotas`), the connection is blocked and not read (`flow_control`); only produces
that wait for their followers do not block later requests (`response_queue`).

Work that may take longer than a millisecond runs in time slices (`step_runner`): handlers that are generators, and the
decoding and encoding of messages with more than `ENTRIES_IN_ONE_GO` entries, of which few are processed at a time
(`large_requests`).
A request without a possible response closes its connection, with one log line that names the peer and the reason; other
connections are not affected.

Source: SocketServer, RequestChannel and KafkaApis of Apache Kafka 4.3; KIP-511 for ApiVersions.
"""

import logging
import struct
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.handlers.api import CloseConnection, HandlerResult, ListenerRole, RequestContext
from ottla.handlers.api_versions import unsupported_version_response
from ottla.handlers.services import Services
from ottla.network.connection import Connection, Guard
from ottla.network.flow_control import FlowControl
from ottla.network.large_requests import ENTRIES_IN_ONE_GO, RESPONSE_BYTES_MAX, LargeRequests
from ottla.network.outcome import Encoded, Outcome, Running, result_of
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
# Constants of the module: attribute look-ups in the enumerations cost as much as calls.
_BROKER, _PRODUCE = ListenerRole.BROKER, ApiKey.PRODUCE


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
        """Every API version that was requested so far, for the metrics."""
        return [*self._broker_routes.values(), *self._controller_routes.values()]

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; ``frame`` is not used afterwards."""
        try:
            if connection.guard is None or not self._is_stopped(connection, connection.guard, frame):
                self._serve(connection, frame)
        except ProtocolError as error:
            self._on_close(connection, f"sent bytes that are not a request: {error}")
        except struct.error:
            self._on_close(connection, f"sent a frame of {len(frame)} bytes, too few for a request header")

    def _is_stopped(self, connection: Connection, guard: Guard, frame: memoryview) -> bool:
        try:
            return guard.stops(frame)
        except (ProtocolError, struct.error):
            raise
        except Exception:
            # A defect of ours, which must neither authenticate a client nor take the node down.
            logger.exception("authentication of %s on %s failed", connection.info.peer, connection.info.listener)
            self._on_close(connection, "its authentication could not continue")
            return True

    def _serve(self, connection: Connection, frame: memoryview) -> None:
        api_key, version, correlation_id = FIXED_HEADER.unpack_from(frame)
        info = connection.info
        # Cheaper than a dictionary by role: an enumeration's hash is a call.
        routes = self._broker_routes if info.role is _BROKER else self._controller_routes
        route = routes.get(api_key << 16 | version)
        if route is None and (route := _add_route(routes, info.role, api_key, version)) is None:
            self._reject_version(connection, api_key, version, correlation_id)
            return
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
        outcome: Outcome
        try:
            # Bytes after the request are ignored, as in Kafka: librdkafka sends some with CreateTopics.
            request, _ = route.request_type.decode_from(frame, version, position, entries_max=ENTRIES_IN_ONE_GO)
        except TooManyEntriesError:
            outcome = self._decode_in_slices(connection, route, context, frame, position)
        else:
            outcome = self._handle(connection, route, context, request)
            if isinstance(outcome, GeneratorType):
                outcome = self._run_handler(connection, route, context, frame, position, outcome)
        if isinstance(outcome, Delayed) and outcome.is_complete and isinstance(outcome.value, Message):
            outcome = outcome.value
        if isinstance(outcome, Message) and not connection.responses:
            rest = self._respond(connection, route, context, outcome)
            if rest is None:
                return
            outcome = Running(rest)
        self._respond_later(connection, route, context, outcome)

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
    ) -> Outcome:
        """Decode a request with many entries, handle it, and encode its response, all in one slot."""
        if route.served.has_few_entries:
            return self._error_response(connection, route, _too_many_entries(route))

        def steps(frame: memoryview) -> Steps[Outcome]:
            request: Message | None = object.__new__(route.request_type)
            lists: list[list[Any]] = []
            try:
                assert request is not None
                fault = yield from self._decode_in_steps(route, frame, position, request)
                lists = lists_of(request)
                outcome: HandlerResult = None
                if fault is None:
                    outcome = self._handle(connection, route, context, request)
                request = None
                # A complete result keeps the slot: otherwise large results of many requests would wait to be encoded.
                while True:
                    if isinstance(outcome, GeneratorType):
                        outcome = yield from outcome
                    elif isinstance(outcome, Delayed) and outcome.is_complete:
                        outcome = outcome.value
                    else:
                        break
                # Before the slot is released: otherwise the entries of two requests would be in memory at a time.
                yield from free_in_steps(lists)
            finally:
                self._free_later(lists or ([] if request is None else lists_of(request)))
            if fault is not None:
                return CloseConnection(f"sent bytes that are not a request: {fault}")
            if not isinstance(outcome, Message):
                return outcome
            if context.charge is not None:
                self._settle(connection, context, outcome)
            return (yield from self._encode_in_steps(route, context, outcome))

        in_slot = self._large(connection).in_slot(steps(connection.keep_frame(frame)))
        return self._run(connection, route, context, _with_frame(connection, in_slot))

    def _decode_in_steps(self, route: Route, frame: memoryview, position: int, request: Message) -> Steps[str | None]:
        """Decode into ``request``; return the error's message, or None.

        Not the error itself: its traceback would keep the entries alive, and all would be freed at once.
        """
        try:
            yield from route.request_type.decode_in_steps(
                frame, route.version, position, entries_max=self._entries_max, into=request
            )
        except ProtocolError as error:
            return str(error)
        return None

    def _free_later(self, lists: list[list[Any]]) -> None:
        """Free the rest of a message whose connection has ended, and with it the steps that would have freed it."""
        if lists:
            self.steps.start(free_in_steps(lists))

    def _large(self, connection: Connection) -> LargeRequests:
        """Return the queue for large messages of ``connection``: nodes and clients have separate ones."""
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
    ) -> Outcome:
        """Run a handler that is a generator; only a Produce has views of its frame, which must then stay unchanged."""
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

    def _run(self, connection: Connection, route: Route, context: RequestContext, steps: Steps[Any]) -> Outcome:
        """Run ``steps`` in slices; return their result if the first slice was enough."""
        charge = context.charge
        on_slice = None if charge is None else charge.add_work_time
        result = self.steps.start(self._guarded(connection, route, steps), on_slice=on_slice)
        return result.value if result.is_complete else Running(result)

    def _guarded(self, connection: Connection, route: Route, steps: Steps[Any]) -> Steps[Any]:
        """Run ``steps``; their exceptions become error responses, as those of other handlers do."""
        try:
            return (yield from steps)
        except ProtocolError as error:
            return CloseConnection(f"sent bytes that are not a request: {error}")
        except Exception as error:
            return self._handler_error(connection, route, error)

    # --- responses -------------------------------------------------------------------------------------------------

    def _respond_later(self, connection: Connection, route: Route, context: RequestContext, outcome: Outcome) -> None:
        """Queue an outcome that is no response yet, or a response behind earlier ones."""
        if outcome is None or isinstance(outcome, CloseConnection):
            self._finish(connection, route, context, outcome)
            return
        if context.charge is not None:
            context.charge.record_handler_return()
        is_running = isinstance(outcome, Running)
        if isinstance(outcome, Running):
            delayed = outcome.result
        else:
            delayed = outcome if isinstance(outcome, Delayed) else Delayed.of(outcome)
        finish = partial(self._finish, connection, route, context)
        self.flow.await_response(
            connection, delayed, finish, blocks_requests=context.api_key != _PRODUCE, is_running=is_running
        )

    def _finish(
        self, connection: Connection, route: Route, context: RequestContext, outcome: Outcome
    ) -> "Delayed[Any] | None":
        """Carry out ``outcome``; return None, or a result to wait for and to finish with."""
        if isinstance(outcome, Message):
            return self._respond(connection, route, context, outcome)
        if isinstance(outcome, GeneratorType):
            return result_of(self._run(connection, route, context, outcome))
        if isinstance(outcome, Delayed):
            return outcome
        if isinstance(outcome, Encoded):
            self._send_response(connection, route, context, *outcome)
        elif isinstance(outcome, CloseConnection):
            self._on_close(connection, outcome.reason)
        elif context.charge is not None:
            self.flow.throttle(connection, context.charge.settle(produced_bytes=context.size_bytes, has_response=False))
        return None

    def _reject_version(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> None:
        """Respond to ApiVersions in version 0, which every client can decode (KIP-511); else close the connection."""
        if api_key != ApiKey.API_VERSIONS:
            self._on_close(connection, f"requested API key {api_key} in version {version}, which is not supported")
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
        """Send the response; return None, or the result for `_finish` if it has to be encoded in slices."""
        charge = context.charge
        started_ns = 0
        if charge is not None:
            self._settle(connection, context, response)
            started_ns = self._clock.monotonic_ns()
        # Inlined `_response_start`: the call would cost as much as its body.
        out = bytearray(_RESPONSE_START.pack(0, context.correlation_id))
        if route.has_flexible_response_header:
            out.append(0)
        splices: list[Splice] = []
        try:
            response.write(route.version, out, splices, entries_max=ENTRIES_IN_ONE_GO)
        except TooManyEntriesError:
            steps = self._large(connection).in_slot(self._encode_in_steps(route, context, response))
            return result_of(self._run(connection, route, context, steps))
        except ValueError as error:
            # A defect of ours, which must affect this client only. The codec's traceback would add nothing.
            self._on_close(connection, _unencodable(route, error))
            return None
        self._send_response(connection, route, context, out, splices)
        if charge is not None:
            charge.record_response_write(started_ns)
        return None

    def _encode_in_steps(self, route: Route, context: RequestContext, response: Message) -> Steps[Outcome]:
        encoded = Encoded(self._response_start(route, context), [])
        lists: list[list[Any]] = []
        try:
            for _ in response.write_in_steps(route.version, encoded.out, encoded.splices):
                if len(encoded.out) > RESPONSE_BYTES_MAX:
                    return CloseConnection(
                        f"requested more than {RESPONSE_BYTES_MAX} bytes with one {route.api_name}; request less"
                    )
                yield None
            lists = take_lists(response)
            yield from free_in_steps(lists)
        except ValueError as error:
            return CloseConnection(_unencodable(route, error))
        finally:
            self._free_later(lists or take_lists(response))
        return encoded

    def _settle(self, connection: Connection, context: RequestContext, response: Message) -> None:
        """Charge the response to its client's quotas, set its throttle time, and throttle the connection."""
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
        # A connection that waited for its response has not been idle.
        connection.last_active_ms = now_ms
        self.flow.send(connection, splice_chunks(out, splices) if splices else [out])

    def _error_response(self, connection: Connection, route: Route, error: KafkaError) -> Message | None:
        """Return a response with only the error; close the connection if the response has no field for it."""
        route.errors += 1
        response = bare_error_response(route.served.api_key, error)
        if response is None:
            self._on_close(connection, f"{route.api_name} v{route.version} cannot report {error}")
        return response


def _add_route(routes: dict[int, Route], role: ListenerRole, api_key: int, version: int) -> Route | None:
    """Return the route of an API version that is requested for the first time; None if this role has none."""
    route = find_route(role, api_key, version)
    if route is not None:
        routes[api_key << 16 | version] = route
    return route


def _with_frame(connection: Connection, steps: Steps[Any]) -> Steps[Any]:
    """Run ``steps``, then release the frame that the connection keeps."""
    try:
        return (yield from steps)
    finally:
        connection.release_frame()


def _unencodable(route: Route, error: ValueError) -> str:
    """Log a response that cannot be encoded; return the reason to close the connection."""
    logger.error("the response to %s v%d cannot be encoded: %s", route.api_name, route.version, one_line(str(error)))
    return f"the response to {route.api_name} v{route.version} cannot be encoded"


def _too_many_entries(route: Route) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"{route.api_name} may list {ENTRIES_IN_ONE_GO} entries over all of its arrays.",
    )


def _is_exempt(context: RequestContext) -> bool:
    """Return whether no quota applies: the client is not authenticated yet, or a replica of the quorum fetches.

    The Fetch handler exempts replicas of partitions.
    """
    authenticator = context.connection.authenticator
    if authenticator is not None and not authenticator.is_complete:
        return True
    return context.api_key == ApiKey.FETCH and context.connection.role is ListenerRole.CONTROLLER
