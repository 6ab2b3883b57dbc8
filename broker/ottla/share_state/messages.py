"""Kafka's own messages of the errors that requests about the state of share-partitions have."""

from typing import Final

from ottla.errors import MESSAGES, ErrorCode

_MESSAGES: Final = {
    **MESSAGES,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: (
        "The share coordinator rejected the request because the share-group state epoch did not match."
    ),
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.NETWORK_EXCEPTION: "The server disconnected before a response was received.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
}


def message_of(error: ErrorCode) -> str:
    """Return the message of an error; its name where Kafka's requests never have it."""
    return _MESSAGES.get(error, error.name)
