"""Every API has its classes, and its headers the versions that clients expect."""

import pytest

from ottla.wire.messages.registry import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)

EVERY_KEY = pytest.mark.parametrize("api_key", list(ApiKey), ids=lambda key: key.name.lower())


@EVERY_KEY
def test_request_and_response_of_an_api_have_the_same_versions(api_key: ApiKey) -> None:
    request, response = request_type(api_key), response_type(api_key)

    assert request.__name__.removesuffix("Request") == response.__name__.removesuffix("Response")
    assert (request.api_key, response.api_key) == (api_key, api_key)
    assert request.versions == response.versions


@EVERY_KEY
def test_headers_are_flexible_where_their_message_is(api_key: ApiKey) -> None:
    first, last = request_type(api_key).versions
    for version in range(first, last + 1):
        is_flexible = version in request_type(api_key).flexible
        assert request_header_version(api_key, version) == (2 if is_flexible else 1)
        if api_key is not ApiKey.API_VERSIONS:
            assert response_header_version(api_key, version) == int(version in response_type(api_key).flexible)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_response_has_header_version_0(version: int) -> None:
    assert response_header_version(ApiKey.API_VERSIONS, version) == 0
