"""Limits are set, listed and removed over the wire, and stored in the metadata log."""

import math
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.world.single_node import RunningNode, World
from ottla.wire.codec import Message
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.wire.messages.registry import ApiKey, response_type

Names = dict[str, str | None]
ALICE: Names = {"user": "alice"}


def ask(node: RunningNode, request: Message, version: int = 1) -> Any:
    return node.connect().ask(request, response_type(ApiKey(request.api_key)), version)


def entry(names: Names, **limits: float | None) -> AlterClientQuotasRequestEntryData:
    """Return a change of one entity; None removes a limit."""
    return AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in names.items()
        ],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
    )


def alter(
    node: RunningNode, *entries: AlterClientQuotasRequestEntryData, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    response = ask(node, AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only))
    return [(each.error_code, each.error_message) for each in response.entries]


def listed(node: RunningNode, *components: ComponentData, strict: bool = False) -> dict[tuple[Any, ...], Any]:
    response = ask(node, DescribeClientQuotasRequest(components=list(components), strict=strict))
    assert response.error_code == ErrorCode.NONE, response.error_message
    return {
        tuple((each.entity_type, each.entity_name) for each in found.entity): {
            value.key: value.value for value in found.values
        }
        for found in response.entries
    }


OK = (ErrorCode.NONE, None)


def test_set_limits_are_listed_and_removed_ones_are_not(running: RunningNode) -> None:
    assert alter(running, entry(ALICE, producer_byte_rate=1024, request_percentage=12.5)) == [OK]
    assert listed(running) == {(("user", "alice"),): {"producer_byte_rate": 1024, "request_percentage": 12.5}}

    assert alter(running, entry(ALICE, producer_byte_rate=None)) == [OK]
    assert listed(running) == {(("user", "alice"),): {"request_percentage": 12.5}}

    assert alter(running, entry(ALICE, request_percentage=None)) == [OK]
    assert listed(running) == {}


def test_limits_survive_a_restart(world: World, running: RunningNode) -> None:
    alter(running, entry({"user": None, "client_id": "c"}, consumer_byte_rate=7))
    running.node.begin_shutdown()
    running.run_until(lambda: bool(running.stopped))
    running.node.close()

    assert listed(world.start_node()) == {(("client-id", "c"), ("user", None)): {"consumer_byte_rate": 7}}


def test_validate_only_sets_no_limit(running: RunningNode) -> None:
    assert alter(running, entry(ALICE, producer_byte_rate=1), validate_only=True) == [OK]

    assert listed(running) == {}


@pytest.mark.parametrize(
    ("names", "limits", "message"),
    [
        pytest.param({}, {}, "Invalid empty client quota entity", id="empty-entity"),
        pytest.param({"group": "g"}, {}, "Unhandled client quota entity type: group", id="unknown-type"),
        pytest.param({"user": ""}, {}, "Empty user not supported", id="empty-name"),
        pytest.param(
            {"ip": "10.0.0.1", "user": "a"},
            {},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            id="address-and-user",
        ),
        pytest.param({"ip": "nowhere"}, {}, "nowhere is not a valid IP or resolvable host.", id="no-address"),
        pytest.param(ALICE, {"speed": 1}, "Invalid configuration key speed", id="unknown-key"),
        pytest.param(
            ALICE,
            {"connection_creation_rate": 1},
            "Invalid configuration key connection_creation_rate",
            id="key-of-addresses",
        ),
        pytest.param(
            ALICE, {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0", id="below"
        ),
        pytest.param(
            ALICE, {"request_percentage": math.nan}, "Quota request_percentage must be greater than 0", id="no-number"
        ),
        pytest.param(
            ALICE, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value.", id="fraction"
        ),
        pytest.param(
            ALICE,
            {"producer_byte_rate": 1e30},
            "Proposed value for producer_byte_rate is too large for a LONG.",
            id="too-large",
        ),
        pytest.param(
            {"ip": "10.0.0.1"},
            {"connection_creation_rate": 1e10},
            "Proposed value for connection_creation_rate is too large for an INT.",
            id="too-large-int",
        ),
    ],
)
def test_invalid_entry_is_rejected_and_the_rest_is_set(
    running: RunningNode, names: Names, limits: dict[str, float], message: str
) -> None:
    altered = alter(running, entry(names, **limits), entry({"user": "bob"}, producer_byte_rate=1))

    assert altered == [(ErrorCode.INVALID_REQUEST, message), OK]
    assert list(listed(running)) == [(("user", "bob"),)]


def component(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        pytest.param([], False, 4, id="everything"),
        pytest.param([component("user", 0, "alice")], False, 2, id="exactly"),
        pytest.param([component("user", 0, "alice")], True, 1, id="strict"),
        pytest.param([component("user", 1)], False, 1, id="the-default"),
        pytest.param([component("user", 2)], False, 3, id="any"),
        pytest.param([component("user", 2), component("client-id", 2)], False, 1, id="both"),
        pytest.param([component("ip", 2)], False, 1, id="addresses"),
    ],
)
def test_filters_match_as_in_kafka(
    running: RunningNode, components: list[ComponentData], strict: bool, found: int
) -> None:
    alter(
        running,
        entry(ALICE, producer_byte_rate=1),
        entry({"user": "alice", "client_id": "c"}, producer_byte_rate=2),
        entry({"user": None}, producer_byte_rate=3),
        entry({"ip": "10.0.0.1"}, connection_creation_rate=4),
    )

    assert len(listed(running, *components, strict=strict)) == found


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        pytest.param([component("", 2)], ErrorCode.INVALID_REQUEST, "Invalid empty entity type.", id="no-type"),
        pytest.param(
            [component("group", 2)], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group", id="type"
        ),
        pytest.param([component("user", 9)], ErrorCode.INVALID_REQUEST, "Unknown match type 9", id="match-type"),
        pytest.param(
            [component("user", 2), component("user", 2)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
            id="twice",
        ),
        pytest.param(
            [component("user", 1, "alice")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
            id="default-with-a-name",
        ),
    ],
)
def test_invalid_filter_is_rejected(
    running: RunningNode, components: list[ComponentData], code: ErrorCode, message: str
) -> None:
    response = ask(running, DescribeClientQuotasRequest(components=components))

    assert (response.error_code, response.error_message, response.entries) == (code, message, None)
