"""ApiVersions in each of its versions: what is served, and from version 3 on the features."""

from pathlib import Path

import pytest

from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, CLIENT_METRICS_APIS, is_served_to
from ottla.metadata.metadata_version import SUPPORTED_FEATURES
from ottla.simulator.world.single_node import RunningNode
from ottla.wire.codec.versions import VersionRange
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.registry import ApiKey

SERVED_TO_CLIENTS = {
    key: (0 if key is ApiKey.PRODUCE else row.first_version, row.last_version)
    for key, row in CATALOG.items()
    if is_served_to(ListenerRole.BROKER, key) and key not in CLIENT_METRICS_APIS
}


RECORDED = Path(__file__).parent / "kafka_4_3_apis.txt"


@pytest.mark.parametrize(("role", "listener"), [("broker", "PLAINTEXT"), ("controller", "CONTROLLER")])
def test_announced_apis_are_those_of_kafka(running: RunningNode, role: str, listener: str) -> None:
    lines = [line.split() for line in RECORDED.read_text().splitlines() if line.startswith(f"{role} ")]
    recorded = {ApiKey(int(key)): versions for _, key, _, versions in lines}

    response = running.connect(listener).ask(ApiVersionsRequest(), ApiVersionsResponse, 0)

    announced = {
        ApiKey(each.api_key): str(VersionRange(each.min_version, each.max_version)) for each in response.api_keys
    }
    assert announced == recorded


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_served_apis(running: RunningNode, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for _ in range(2):
        response = running.connect().ask(request, ApiVersionsResponse, version)

        assert {each.api_key: (each.min_version, each.max_version) for each in response.api_keys} == SERVED_TO_CLIENTS


@pytest.mark.parametrize(
    ("version", "smallest_minimum"),
    [
        pytest.param(2, None, id="v2-has-none"),
        pytest.param(3, 1, id="v3-only-those-that-begin-above-zero"),
        pytest.param(4, 0, id="v4-all"),
    ],
)
def test_features_are_listed(running: RunningNode, version: int, smallest_minimum: int | None) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")

    response = running.connect().ask(request, ApiVersionsResponse, version)

    assert {each.name: (each.min_version, each.max_version) for each in response.supported_features} == {
        name: levels
        for name, levels in SUPPORTED_FEATURES.items()
        if smallest_minimum is not None and levels[0] >= smallest_minimum
    }
    assert bool(response.finalized_features) == (smallest_minimum is not None)
