"""Entries for clients over IPv6: their address is matched in Java's notation only."""

import socket
from typing import Any

import pytest
from permission_catalog import ROWS
from permission_grants import GRANTS

from ottla.wire.messages.registry import ApiKey

ROW = next(row for row in ROWS if row.api_key is ApiKey.DESCRIBE_PRODUCERS)
DENIED, ALLOWED = 29, 0


@pytest.fixture(scope="module")
def over_ipv6(starter: Any) -> dict[str, Any]:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("there is no IPv6 here")
    return {kind: starter.start(kind, host="::1") for kind in ("kafka", "ours")}


@pytest.mark.parametrize(
    ("host", "code"),
    [
        pytest.param("*", ALLOWED, id="every-host"),
        pytest.param("0:0:0:0:0:0:0:1", ALLOWED, id="as-java-writes-it"),
        pytest.param("::1", DENIED, id="short"),
        pytest.param("0000:0000:0000:0000:0000:0000:0000:0001", DENIED, id="long"),
    ],
)
def test_entry_names_an_ipv6_host_as_java_writes_it(over_ipv6: dict[str, Any], host: str, code: int) -> None:
    responses = {}
    for kind, node in over_ipv6.items():
        node.server.grant(acl._replace(host=host) for acl in GRANTS["TOPIC-READ"])
        responses[kind] = node.server.response(ROW, 0)

    assert responses["ours"] == responses["kafka"]
    (orders,) = (topic for topic in responses["ours"]["topics"] if topic["name"] == "orders")
    assert [partition["error_code"] for partition in orders["partitions"]] == [code]
