"""ApiVersions (api key 18, v0-v4): what this node serves, and the features of its cluster.

v3 flexible body, client software name and version (KIP-511), features (KIP-584); v4 lists features whose minimum is 0.
The response header is always version 0. The response to an unknown version is version 0 with error 35, so that every
client can retry with a lower version. Produce is listed from version 0 although 0-2 are not served: librdkafka
otherwise believes that compressed batches are not understood (KAFKA-18659). The APIs of client metrics are listed only
if this node has a receiver for them, as in Kafka.

Source: ApiVersionsRequest.json, ApiVersionManager and ApiVersionsRequest.isValid of Apache Kafka 4.3.
"""

import re
from functools import cache

from ottla.errors import ErrorCode
from ottla.handlers.api import ListenerRole, RequestContext, serves
from ottla.handlers.catalog import CATALOG, CLIENT_METRICS_APIS, is_served_to
from ottla.metadata.metadata_version import KRAFT_VERSION, SUPPORTED_FEATURES
from ottla.wire.codec import EncodedArray
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.messages.registry import ApiKey

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE = 3
_FIRST_VERSION_WITH_FEATURES = 3
_FIRST_VERSION_WITH_ZERO_MINIMUM = 4


@serves(api_key=18, versions=range(0, 5))
def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Record the client's software; list APIs and features."""
    if context.api_version >= _FIRST_VERSION_WITH_SOFTWARE:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    has_features = context.api_version >= _FIRST_VERSION_WITH_FEATURES
    metadata = context.services.metadata
    return ApiVersionsResponse(
        api_keys=_served_apis(
            context.connection.role, context.api_version, context.services.client_metrics.is_enabled
        ).as_list,
        supported_features=_supported_features(context.api_version).as_list if has_features else [],
        finalized_features_epoch=metadata.offset,
        finalized_features=_finalized_features(context) if has_features else [],
    )


def _finalized_features(context: RequestContext) -> list[FinalizedFeatureKey]:
    """Return the finalized features; kraft.version is the quorum's own and starts at 1 (KIP-853)."""
    levels = dict(context.services.metadata.image.features.levels)
    if context.services.raft.kraft_version > 0:
        levels[KRAFT_VERSION] = context.services.raft.kraft_version
    return [
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in sorted(levels.items())
    ]


def unsupported_version_response() -> ApiVersionsResponse:
    """Return the response, to be encoded in version 0, to a version that is not served."""
    mine = CATALOG[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=mine.first_version, max_version=mine.last_version)
        ],
    )


@cache
def _served_apis(role: ListenerRole, version: int, has_client_metrics: bool) -> EncodedArray:
    apis = [
        ApiVersion(
            api_key=key,
            min_version=0 if key is ApiKey.PRODUCE else row.first_version,  # see the module
            max_version=row.last_version,
        )
        for key, row in sorted(CATALOG.items())
        if is_served_to(role, key) and (has_client_metrics or key not in CLIENT_METRICS_APIS)
    ]
    return ApiVersionsResponse.encode_array(version, ApiVersionsResponse, "api_keys", apis)


@cache
def _supported_features(version: int) -> EncodedArray:
    features = [
        SupportedFeatureKey(name=name, min_version=first, max_version=last)
        for name, (first, last) in sorted(SUPPORTED_FEATURES.items())
        if first > 0 or version >= _FIRST_VERSION_WITH_ZERO_MINIMUM
    ]
    return ApiVersionsResponse.encode_array(version, ApiVersionsResponse, "supported_features", features)
