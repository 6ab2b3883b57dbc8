"""Every API, with and without each permission: our node sends every client the response of JVM Kafka."""

from typing import Any

import pytest
from permission_catalog import ROWS
from permission_grants import GRANTS, LENIENT_GRANTS, Grant

pytestmark = pytest.mark.slow


def differences(nodes: dict[str, Any], user: str) -> str:
    """Send every row's requests to both; return every difference."""
    found = []
    for row in ROWS:
        for version in row.all_versions:
            ours, kafkas = (nodes[kind].server.response(row, version, user) for kind in ("ours", "kafka"))
            if ours != kafkas:
                found.append(f"{row.title} v{version}\n    ours:    {ours}\n    Kafka's: {kafkas}")
    return "\n".join(found)


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS.keys())
def test_clients_may_do_the_same_as_with_kafka(locked: dict[str, Any], grant: Grant) -> None:
    for node in locked.values():
        node.server.grant(grant)

    assert not differences(locked, "alice")


def test_super_users_may_do_everything(locked: dict[str, Any]) -> None:
    for node in locked.values():
        node.server.grant(acl._replace(principal="User:admin") for acl in GRANTS["everything-denied"])

    assert not differences(locked, "admin")


@pytest.mark.parametrize("name", LENIENT_GRANTS)
def test_resources_without_an_entry_are_open_and_the_others_denied(lenient: dict[str, Any], name: str) -> None:
    for node in lenient.values():
        node.server.grant(GRANTS[name])

    assert not differences(lenient, "alice")
