"""Does what speaks at an address fit ``security.protocol``?"""

from ottla.cli.doctor_checks.finding import Finding, Verdict
from ottla.cli.doctor_checks.greeting import Speaks
from ottla.config.listeners import TLS_PROTOCOLS
from ottla.types import Endpoint


def judge_protocol(endpoint: Endpoint, speaks: Speaks, protocol: str) -> Finding:
    """Return OK where a client with ``protocol`` is understood."""
    wanted = Speaks.TLS if protocol in TLS_PROTOCOLS else Speaks.KAFKA
    if speaks is wanted:
        return Finding(check="protocol", subject=str(endpoint), verdict=Verdict.OK, said=f"speaks {speaks.value}")
    if speaks is Speaks.TLS:
        step = f"set security.protocol={'SASL_SSL' if protocol.startswith('SASL_') else 'SSL'} in --command-config"
    elif speaks is Speaks.KAFKA:
        step = (
            f"set security.protocol={'SASL_PLAINTEXT' if protocol.startswith('SASL_') else 'PLAINTEXT'}, or dial the "
            "listener that has TLS"
        )
    elif speaks is Speaks.HTTP:
        step = "use the port of a Kafka listener; this may be the port of health and metrics"
    else:
        step = "see what runs at that port; a broker that hangs, or a proxy without a broker behind it, looks like this"
    return Finding(
        check="protocol",
        subject=str(endpoint),
        verdict=Verdict.UNHEALTHY,
        said=f"speaks {speaks.value}, and security.protocol is {protocol}",
        next_step=step,
    )
