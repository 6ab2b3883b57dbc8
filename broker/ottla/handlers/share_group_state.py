"""The common part of the five APIs about the state of share-partitions, each of which is carried out on its own.

Only brokers may use them. A partition that a request lists twice is handled twice and has one result, the last one. A
request without group or with a topic without partitions has no result at all, as in Kafka, except that
InitializeShareGroupState ignores such a topic.

Source: ShareCoordinatorService, KafkaApis of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.messages import message_of
from ottla.share_state.persister import SharePartitionKey
from ottla.types import Uuid
from ottla.wire.acl_codes import Operation

_PARTITIONS_PER_STEP: Final = 4
"""A write takes some 40 us."""
_RESULTS_PER_STEP: Final = 32
_TOPICS_PER_STEP: Final = 1024

StateRequest: TypeAlias = Any
"""A request of one of the five APIs."""
_Waiting: TypeAlias = dict[Uuid, dict[int, Delayed[Any]]]


def serve_partitions(
    context: RequestContext,
    request: StateRequest,
    *,
    call: Callable[[SharePartitionKey, Any], Delayed[Any]],
    to_result: Callable[[int, Any], Any],
    to_error: Callable[..., Any],
    to_topic: Callable[..., Any],
    to_response: Callable[..., HandlerResult],
    prepare: Callable[[Any], Steps[None]] | None = None,
    ignores_empty_topics: bool = False,
) -> Steps[HandlerResult]:
    """Respond with the result of each partition, when all that they stored is committed.

    Args:
        context: of the request.
        request: one of the five.
        call: carries out the part of the request for a share-partition.
        to_result: returns the struct of a partition in the response, for the result of ``call`` without error.
        to_error: returns it for an error.
        to_topic: returns the struct of a topic in the response.
        to_response: returns the response for those.
        prepare: converts the part of the request for a share-partition, which may be large, before ``call``.
        ignores_empty_topics: whether a topic without partitions does no harm to the others.
    """
    if not context.may_on_cluster(Operation.CLUSTER_ACTION):
        return to_response(results=(yield from _reject(request, to_error, to_topic)))
    if not request.group_id:
        return to_response(results=[])
    if not ignores_empty_topics:
        for number, topic in enumerate(request.topics, 1):
            if not topic.partitions:
                return to_response(results=[])
            if number % _TOPICS_PER_STEP == 0:
                yield None
    waiting = yield from _call_each(request, prepare, call)

    def to_struct(index: int, result: Any) -> Any:  # noqa: ANN401 - results of five APIs
        if result.error is ErrorCode.NONE:
            return to_result(index, result)
        return to_error(partition=index, **_error_fields(result.error, result.message))

    return to_response(results=(yield from _results(waiting, to_struct, to_topic)))


def _reject(request: StateRequest, to_error: Callable[..., Any], to_topic: Callable[..., Any]) -> Steps[list[Any]]:
    fields = _error_fields(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    rejected: list[Any] = []
    for topic in request.topics:
        results: list[Any] = []
        for number, each in enumerate(topic.partitions, 1):
            results.append(to_error(partition=each.partition, **fields))
            if number % _RESULTS_PER_STEP == 0:
                yield None
        rejected.append(to_topic(topic_id=topic.topic_id, partitions=results))
        yield None
    return rejected


def _call_each(
    request: StateRequest,
    prepare: Callable[[Any], Steps[None]] | None,
    call: Callable[[SharePartitionKey, Any], Delayed[Any]],
) -> Steps[_Waiting]:
    waiting: _Waiting = {}
    number = 0
    for topic in request.topics:
        for each in topic.partitions:
            if prepare is not None:
                yield from prepare(each)
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            waiting.setdefault(topic.topic_id, {})[each.partition] = call(key, each)
            number += 1
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
    return waiting


def _results(waiting: _Waiting, to_struct: Callable[[int, Any], Any], to_topic: Callable[..., Any]) -> Steps[list[Any]]:
    responded: list[Any] = []
    for number, topic_id in enumerate(list(waiting), 1):
        # Removed one by one: freeing thousands of results at once takes milliseconds.
        partitions = waiting.pop(topic_id)
        results: list[Any] = []
        for index in list(partitions):
            delayed = partitions.pop(index)
            results.append(to_struct(index, delayed.value if delayed.is_complete else (yield delayed)))
            if len(results) % _RESULTS_PER_STEP == 0:
                yield None
        responded.append(to_topic(topic_id=topic_id, partitions=results))
        if number % _RESULTS_PER_STEP == 0:
            yield None
    return responded


def _error_fields(error: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {"error_code": int(error), "error_message": message or message_of(error)}
