"""Endpoints of the leader in the quorum's responses, from version 1 on."""

from typing import Protocol, TypeVar

from ottla.handlers.api import RequestContext

_FIRST_VERSION_WITH_ENDPOINTS = 1


class _HasEndpoints(Protocol):
    # The class of the endpoints differs from message to message, and an emptied list fits all.
    node_endpoints: list  # type: ignore[type-arg]


ResponseT = TypeVar("ResponseT", bound=_HasEndpoints)


def without_endpoints(context: RequestContext, response: ResponseT) -> ResponseT:
    """Remove the endpoints if the request's version has no field for them."""
    if context.api_version < _FIRST_VERSION_WITH_ENDPOINTS:
        response.node_endpoints = []
    return response
