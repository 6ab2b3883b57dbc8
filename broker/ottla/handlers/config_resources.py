"""What the config APIs share: which layers a broker has, and which resources this node may answer for."""

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
from ottla.handlers.ask_controller import ask_controller
from ottla.metadata.configs import EVERY_BROKER, ConfigResource
from ottla.purgatory import Delayed
from ottla.quoting import cut_name
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message


class AlteredResource(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str


class AlteredAnswer(Protocol):
    """The answer for one of them."""

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
AnswerT = TypeVar("AnswerT", bound=AlteredAnswer)

ValuesAfter: TypeAlias = Callable[[ResourceT, Mapping[str, str]], Mapping[str, str]]
"""A broker's own values after a request, by the resource in it and the values before."""


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
    """Raise unless the client is allowed to do this with what has the configuration.

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
    """Refuse what must be asked of another broker, or nobody can change; a controller takes it for any broker.

    Raises:
        KafkaError: INVALID_REQUEST, with Kafka's words.
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
    """Refuse what does not fit this broker as it runs; a controller takes it, as Kafka's does.

    Of whoever may not alter the cluster nothing is looked at: that costs time and opens files, and the controller
    refuses it anyway.

    Raises:
        KafkaError: INVALID_REQUEST: steps of thread counts that are too large, cordoned directories that are not there,
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
        # Not a change at all; the controller says why.
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


def pass_on_alterable(
    context: RequestContext,
    resources: list[ResourceT],
    *,
    values_after: ValuesAfter[ResourceT],
    answer_type: type[AnswerT],
    request_for: Callable[[list[ResourceT]], Message],
    answers_in: Callable[[Message], list[AnswerT]],
) -> Delayed[list[AnswerT]]:
    """Refuse the resources that this broker must not pass on, send the rest to the active controller.

    Args:
        context: of the request.
        resources: as the client names them.
        values_after: what a broker's own values would be.
        answer_type: of one resource.
        request_for: makes the controller's request of the rest.
        answers_in: takes the answers out of the controller's response.

    Returns:
        An answer for each resource, in the client's order.
    """

    def check(resource: ResourceT) -> None:
        check_alterable(context, resource.resource_type, resource.resource_name)
        _check_for_this_broker(context, resource, values_after)

    def authorize(resource: ResourceT) -> None:
        require_on_resource(context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)

    passed = _Checked(resources, check, answer_type)

    def decide(_: Message) -> Delayed[Message]:
        allowed = _Checked(passed.rest, authorize, answer_type)

        def with_refused(response: Message) -> Message:
            answers = answers_in(response)
            answers[:] = allowed.merged(answers)
            return response

        return context.services.controller.handle_locally(request_for(allowed.rest)).then(with_refused)

    answered = ask_controller(context, request_for(passed.rest), decide)
    return answered.then(lambda response: passed.merged(answers_in(response)))


class _Checked(Generic[ResourceT, AnswerT]):
    """Resources of which some are refused; ``rest`` are the others."""

    def __init__(
        self, resources: list[ResourceT], check: Callable[[ResourceT], None], answer_type: type[AnswerT]
    ) -> None:
        self.rest: list[ResourceT] = []
        self._refused: list[AnswerT | None] = []
        for resource in resources:
            try:
                check(resource)
            except KafkaError as error:
                self._refused.append(
                    answer_type(
                        error_code=error.code,
                        error_message=error.message,
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                    )
                )
            else:
                self._refused.append(None)
                self.rest.append(resource)

    def merged(self, answers: Iterable[AnswerT]) -> list[AnswerT]:
        """Return an answer for each resource, given those for the rest."""
        others = iter(answers)
        return [next(others) if refused is None else refused for refused in self._refused]
