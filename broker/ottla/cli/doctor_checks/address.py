"""Is there such a name, and does somebody accept connections there?"""

import asyncio
import socket
from collections.abc import AsyncIterator

from ottla.cli.doctor_checks.finding import Finding, Verdict
from ottla.types import Endpoint


async def check_address(endpoint: Endpoint, timeout_s: float) -> AsyncIterator[Finding]:
    """Yield what name resolution and TCP say; the last verdict is OK where a connection was accepted."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        yield Finding(
            check="name",
            subject=str(endpoint),
            verdict=Verdict.TIMEOUT,
            said=f"{endpoint.host} has no address: {getattr(error, 'strerror', None) or 'no answer in time'}",
            next_step="check the spelling, and whether this machine's DNS or /etc/hosts knows that name",
        )
        return
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    yield Finding(
        check="name", subject=str(endpoint), verdict=Verdict.OK, said=f"{endpoint.host} is {', '.join(addresses)}"
    )
    refusals = []
    for address in addresses:
        refusal = await _dial(address, endpoint.port, timeout_s / len(addresses))
        if refusal is None:
            yield Finding(check="tcp", subject=str(endpoint), verdict=Verdict.OK, said=f"{address} accepts connections")
            return
        refusals.append(f"{address}: {refusal}")
    is_closed = all("nobody listens" in refusal for refusal in refusals)
    yield Finding(
        check="tcp",
        subject=str(endpoint),
        verdict=Verdict.TIMEOUT,
        said="; ".join(refusals),
        next_step=(
            "start the broker, or use the port of its listener"
            if is_closed
            else "see whether a firewall, a network policy or a missing route is between here and there"
        ),
    )


async def _dial(address: str, port: int, timeout_s: float) -> str | None:
    """Return why no connection was accepted; None where one was."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except ConnectionRefusedError:
        return f"nobody listens at port {port}"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return None
