"""Types of all packages."""

import pytest

from ottla.types import host_address


@pytest.mark.parametrize(
    ("host", "written"),
    [
        pytest.param("10.0.0.9", "10.0.0.9", id="ipv4"),
        pytest.param("::1", "0:0:0:0:0:0:0:1", id="loopback"),
        pytest.param("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329", id="zeros-within"),
        pytest.param("2001:db8:0:0:0:ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329", id="in-full"),
        pytest.param("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0", id="with-a-zone"),
    ],
)
def test_addresses_are_written_as_java_writes_them(host: str, written: str) -> None:
    assert host_address(host) == written
