"""Check that this client can reach every broker at its advertised address, the classic failure."""

import asyncio
from collections.abc import Sequence

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.client.connection import Connection
from ottla.client.errors import LoginFailedError
from ottla.client.results import BrokerDescription
from ottla.client.security import ClientSecurity
from ottla.errors import OttlaError


async def check_advertised(
    brokers: Sequence[BrokerDescription], security: ClientSecurity, timeout_s: float
) -> list[Finding]:
    """Return a finding per broker that is not fenced: a client of one broker must reach all of them."""
    running = [broker for broker in brokers if not broker.is_fenced]
    return list(await asyncio.gather(*(_check(broker, security, timeout_s) for broker in running)))


async def _check(broker: BrokerDescription, security: ClientSecurity, timeout_s: float) -> Finding:
    subject = f"broker {broker.node_id}"
    try:
        connection = await Connection.open(broker.endpoint, timeout_s=timeout_s, security=security)
    except OttlaError as error:
        is_login = isinstance(error, LoginFailedError)
        return Finding(
            check="advertised address",
            subject=subject,
            status=Status.DENIED if is_login else Status.UNHEALTHY,
            said=f"the advertised address of that listener is {broker.endpoint}, which fails from here: {error}",
            next_step=(
                "give the broker the credentials that the others have"
                if is_login
                else f"set advertised.listeners of broker {broker.node_id} to a name and port that clients can reach; "
                "if they are right, the broker is down or unreachable"
            ),
        )
    await connection.close()
    said = f"responds at its advertised address {broker.endpoint}"
    return Finding(check="advertised address", subject=subject, status=Status.OK, said=said)
