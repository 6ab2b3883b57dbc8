"""ListTransactions (api key 66, v0-v2): the transactional ids that this node coordinates.

Filters by state and producer id; v1 by duration (KIP-994); v2 by a pattern of the id (KIP-1152), which is RE2's.
Source: ListTransactionsRequest.json; TransactionStateManager.listTransactionStates of Apache Kafka 4.3.
"""

from collections.abc import Callable

from ottla.config.patterns import InvalidPatternError, compile_test
from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.state import STATES_BY_LABEL
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState


@serves(api_key=66, versions=range(0, 3), has_few_entries=True)
def list_transactions(context: RequestContext, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    """List the ids that pass all filters and that the client may describe."""
    transactions = context.services.transactions
    if transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = ListTransactionsResponse(
        unknown_state_filters=[label for label in request.state_filters if label not in STATES_BY_LABEL]
    )
    states = {STATES_BY_LABEL[label] for label in request.state_filters if label in STATES_BY_LABEL}
    if request.state_filters and not states:
        return response
    producer_ids = frozenset(request.producer_id_filters)
    try:
        matches = _compile(request.transactional_id_pattern)
    except InvalidPatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    started_before_ms = context.services.clock.wall_ms() - request.duration_filter

    def passes(metadata: TransactionMetadata) -> bool:
        return (
            (not states or metadata.state in states)
            and (not producer_ids or metadata.producer_id in producer_ids)
            and (request.duration_filter < 0 or metadata.start_ms < started_before_ms)
            and matches(metadata.transactional_id)
            and context.would_be_allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, metadata.transactional_id)
        )

    for partition in transactions.all_transactions():
        yield None
        for number, metadata in enumerate(partition, 1):
            if passes(metadata):
                response.transaction_states.append(
                    TransactionState(
                        transactional_id=metadata.transactional_id,
                        producer_id=metadata.producer_id,
                        transaction_state=metadata.state.label,
                    )
                )
            if number % ITEMS_PER_STEP == 0:
                yield None
    return response


def _compile(pattern: str | None) -> Callable[[str], bool]:
    """Return the test of an id against the whole pattern.

    Raises:
        InvalidPatternError: RE2 cannot compile it, or it is above a bound.
    """
    if not pattern:
        return lambda _: True
    return compile_test(pattern)
