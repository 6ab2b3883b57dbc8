"""Check that the protocol at an address matches ``security.protocol``."""

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.cli.doctor_checks.protocol_detection import DetectedProtocol
from ottla.config.listeners import TLS_PROTOCOLS
from ottla.types import Endpoint


def check_protocol(endpoint: Endpoint, speaks: DetectedProtocol, protocol: str) -> Finding:
    """Return OK if the protocol there is that of a client with ``protocol``."""
    wanted = DetectedProtocol.TLS if protocol in TLS_PROTOCOLS else DetectedProtocol.KAFKA
    if speaks is wanted:
        return Finding(check="protocol", subject=str(endpoint), status=Status.OK, said=f"speaks {speaks.value}")
    if speaks is DetectedProtocol.TLS:
        step = f"set security.protocol={'SASL_SSL' if protocol.startswith('SASL_') else 'SSL'} in --command-config"
    elif speaks is DetectedProtocol.KAFKA:
        step = (
            f"set security.protocol={'SASL_PLAINTEXT' if protocol.startswith('SASL_') else 'PLAINTEXT'}, or connect to "
            "the listener that has TLS"
        )
    elif speaks is DetectedProtocol.HTTP:
        step = "use the port of a Kafka listener; this may be the port of health and metrics"
    else:
        step = "check which process runs at that port; a hanging broker, or a proxy without a broker, looks like this"
    return Finding(
        check="protocol",
        subject=str(endpoint),
        status=Status.UNHEALTHY,
        said=f"speaks {speaks.value}, and security.protocol is {protocol}",
        next_step=step,
    )
