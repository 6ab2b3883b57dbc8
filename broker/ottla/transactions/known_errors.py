"""Errors of transactions, as versions of requests know them."""

from ottla.errors import ErrorCode


def to_known_error(code: ErrorCode, *, knows_fenced: bool = True, knows_abortable: bool = True) -> ErrorCode:
    """Return ``code``, or the older error in its place for a client that does not know it.

    Source: AddPartitionsToTxnManager, and the checks of versions in KafkaApis of Apache Kafka 4.3.
    """
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
