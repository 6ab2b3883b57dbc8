"""Can this client reach every broker at the address that the brokers give out? The classic failure."""

import asyncio
from collections.abc import Sequence

from ottla.cli.doctor_checks.finding import Finding, Verdict
from ottla.client.connection import Connection
from ottla.client.errors import LoginFailedError
from ottla.client.results import BrokerDescription
from ottla.client.security import ClientSecurity
from ottla.errors import OttlaError


async def check_advertised(
    brokers: Sequence[BrokerDescription], security: ClientSecurity, timeout_s: float
) -> list[Finding]:
    """Return a finding per broker that is not fenced: a client that found one of them has to reach them all."""
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
            verdict=Verdict.DENIED if is_login else Verdict.UNHEALTHY,
            said=f"the cluster sends clients of that listener to {broker.endpoint}, which fails from here: {error}",
            next_step=(
                "give the broker the credentials that the others have"
                if is_login
                else f"set advertised.listeners of broker {broker.node_id} to a name and port that clients can reach; "
                "if they are right, the broker is down or something is in between"
            ),
        )
    await connection.close()
    said = f"answers at {broker.endpoint}, where clients are sent"
    return Finding(check="advertised address", subject=subject, verdict=Verdict.OK, said=said)
