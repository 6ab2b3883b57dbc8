"""Shared by the config APIs: the layers of a broker, and the checks of resources to describe or alter."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Generic, Protocol, TypeAlias, TypeVar

from ottla.config.alter import check_thread_counts
from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.cordon import cordoned_directories
from ottla.config.key import InvalidConfigError, parse_value
from ottla.config.layers import BrokerLayers
from ottla.config.resource_type import ConfigResourceType
from ottla.config.sasl_settings import read_sasl_listeners
from ottla.errors import ConfigurationError, ErrorCode, KafkaError
from ottla.handlers.api import ListenerRole, RequestContext
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.metadata.configs import EVERY_BROKER, ConfigResource
from ottla.purgatory import Delayed
from ottla.quoting import cut_name
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message


class AlteredResource(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str


class AlteredResult(Protocol):
    """The result for one of them."""

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None: ...


_OF_THE_CLUSTER = (
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
)

ResourceT = TypeVar("ResourceT", bound=AlteredResource)
ResultT = TypeVar("ResultT", bound=AlteredResult)

ValuesAfter: TypeAlias = Callable[[ResourceT, Mapping[str, str]], Mapping[str, str]]
"""Returns a broker's own values after a request, given the request's resource and the values before."""


def broker_layers(context: RequestContext) -> BrokerLayers:
    """Return this broker's static and dynamic values."""
    config = context.services.config
    configs = context.services.metadata.image.configs
    return BrokerLayers(
        static=config.originals,
        dynamic_default=configs.of(EVERY_BROKER),
        dynamic_broker=configs.of(ConfigResource(ConfigResourceType.BROKER, str(config.node_id))),
    )


def require_on_resource(context: RequestContext, operation: Operation, resource_type: int, name: str) -> None:
    """Raise unless the client may perform the operation on the configured resource.

    Raises:
        KafkaError: TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED.
    """
    if resource_type == ConfigResourceType.TOPIC:
        context.require_on_topic(operation, name)
    elif resource_type == ConfigResourceType.GROUP:
        context.require_on_group(operation, name)
    elif resource_type in _OF_THE_CLUSTER:
        context.require_on_cluster(operation)


def check_alterable(context: RequestContext, resource_type: int, name: str) -> None:
    """Reject a resource of another broker, or one that cannot be changed; a controller accepts it for any broker.

    Raises:
        KafkaError: INVALID_REQUEST, with Kafka's message.
    """
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "This release's log levels cannot be changed while it runs: restart with others."
        )
    if resource_type == ConfigResourceType.BROKER and name and context.connection.role is ListenerRole.BROKER:
        node_id = context.services.config.node_id
        try:
            wanted = int(name)
        except ValueError:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {cut_name(name)}"
            ) from None
        if wanted != node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {cut_name(name)}"
            )


def _check_for_this_broker(context: RequestContext, resource: ResourceT, values_after: ValuesAfter[ResourceT]) -> None:
    """Reject values that this running broker cannot apply; a controller accepts them, as Kafka's does.

    Requests of clients that may not alter the cluster are not checked: the check takes time and opens files, and the
    controller rejects these requests anyway.

    Raises:
        KafkaError: INVALID_REQUEST: steps of thread counts that are too large, cordoned directories that do not exist,
            certificates that cannot be used.
    """
    if resource.resource_type != ConfigResourceType.BROKER or context.connection.role is not ListenerRole.BROKER:
        return
    if not context.would_be_allowed(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return
    before = broker_layers(context)
    try:
        if resource.resource_name:
            after = replace(before, dynamic_broker=values_after(resource, before.dynamic_broker))
        else:
            after = replace(before, dynamic_default=values_after(resource, before.dynamic_default))
    except (InvalidConfigError, ValueError):
        # The change itself is invalid; the controller reports why.
        return
    check_thread_counts(before, after)
    try:
        entries = parse_value(BROKER_KEYS["cordoned.log.dirs"], after.text("cordoned.log.dirs"))
        assert isinstance(entries, tuple)
        cordoned_directories(entries, context.services.config.log_dirs)
        config, properties = context.services.config, {**after.static, **after.dynamic()}
        context.services.check_tls(properties)
        read_sasl_listeners(properties, config.listeners, config.listener_security_protocol_map)
    except ConfigurationError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    except InvalidConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def forward_alterable(
    context: RequestContext,
    resources: list[ResourceT],
    *,
    values_after: ValuesAfter[ResourceT],
    result_type: type[ResultT],
    request_for: Callable[[list[ResourceT]], Message],
    results_in: Callable[[Message], list[ResultT]],
) -> Delayed[list[ResultT]]:
    """Reject the resources that this broker must not forward; forward the rest to the active controller.

    Args:
        context: of the request.
        resources: of the client's request.
        values_after: returns a broker's own values after the change.
        result_type: the type of a resource's result.
        request_for: builds the controller's request for the rest.
        results_in: returns the results in the controller's response.

    Returns:
        A result for each resource, in the client's order.
    """

    def check(resource: ResourceT) -> None:
        check_alterable(context, resource.resource_type, resource.resource_name)
        _check_for_this_broker(context, resource, values_after)

    def authorize(resource: ResourceT) -> None:
        require_on_resource(context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)

    passed = _Checked(resources, check, result_type)

    def decide(_: Message) -> Delayed[Message]:
        allowed = _Checked(passed.rest, authorize, result_type)

        def with_rejected(response: Message) -> Message:
            results = results_in(response)
            results[:] = allowed.merged(results)
            return response

        return context.services.controller.handle_locally(request_for(allowed.rest)).then(with_rejected)

    forwarded = forward_to_controller(context, request_for(passed.rest), decide)
    return forwarded.then(lambda response: passed.merged(results_in(response)))


class _Checked(Generic[ResourceT, ResultT]):
    """Resources of which some are rejected; ``rest`` are the others."""

    def __init__(
        self, resources: list[ResourceT], check: Callable[[ResourceT], None], result_type: type[ResultT]
    ) -> None:
        self.rest: list[ResourceT] = []
        self._rejected: list[ResultT | None] = []
        for resource in resources:
            try:
                check(resource)
            except KafkaError as error:
                self._rejected.append(
                    result_type(
                        error_code=error.code,
                        error_message=error.message,
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                    )
                )
            else:
                self._rejected.append(None)
                self.rest.append(resource)

    def merged(self, results: Iterable[ResultT]) -> list[ResultT]:
        """Return a result for each resource, given the results of the rest."""
        others = iter(results)
        return [next(others) if rejected is None else rejected for rejected in self._rejected]
