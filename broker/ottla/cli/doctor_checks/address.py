"""Check that the name resolves, and that a process accepts connections there."""

import asyncio
import socket
from collections.abc import AsyncIterator

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.types import Endpoint

_NO_LISTENER = "no process listens at port"


async def check_address(endpoint: Endpoint, timeout_s: float) -> AsyncIterator[Finding]:
    """Yield the findings of name resolution and TCP; the last status is OK if a connection was accepted."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        yield Finding(
            check="name",
            subject=str(endpoint),
            status=Status.TIMEOUT,
            said=f"{endpoint.host} has no address: {getattr(error, 'strerror', None) or 'no response in time'}",
            next_step="check the spelling, and whether this host's DNS or /etc/hosts has that name",
        )
        return
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    yield Finding(
        check="name", subject=str(endpoint), status=Status.OK, said=f"{endpoint.host} is {', '.join(addresses)}"
    )
    failures = []
    for address in addresses:
        failure = await _connect(address, endpoint.port, timeout_s / len(addresses))
        if failure is None:
            yield Finding(check="tcp", subject=str(endpoint), status=Status.OK, said=f"{address} accepts connections")
            return
        failures.append(f"{address}: {failure}")
    is_closed = all(_NO_LISTENER in failure for failure in failures)
    yield Finding(
        check="tcp",
        subject=str(endpoint),
        status=Status.TIMEOUT,
        said="; ".join(failures),
        next_step=(
            "start the broker, or use the port of its listener"
            if is_closed
            else "check for a firewall, a network policy or a missing route between here and there"
        ),
    )


async def _connect(address: str, port: int, timeout_s: float) -> str | None:
    """Return the reason why no connection was accepted; None if one was."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
    except TimeoutError:
        return f"no response within {timeout_s:g} s"
    except ConnectionRefusedError:
        return f"{_NO_LISTENER} {port}"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return None
