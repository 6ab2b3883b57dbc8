"""The listeners of a cluster for clients: parsed from the spec, with Kafka's names for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.document import Json

SCRAM, TLS, OAUTH = "scram-sha-512", "tls", "oauth"
"""Types of authentication, of listeners and of Users."""
TLS_EXTERNAL = "tls-external"
"""Type of Users whose certificate another authority issues: they use listeners of the type tls."""

INTERNAL, NODE_PORT, LOAD_BALANCER = "internal", "nodeport", "loadbalancer"
"""Types of listeners, on Kubernetes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """How clients of one listener authenticate."""

    type: str
    issuer: str = ""
    """With the two fields that follow: of the type oauth only."""
    audience: str = ""
    jwks_uri: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRef:
    """An issuer of cert-manager."""

    name: str
    kind: str = "Issuer"
    group: str = "cert-manager.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerCertificate:
    """Source of a listener's certificate that the cluster's authority did not sign: exactly one of the two is set."""

    secret_name: str | None = None
    issuer_ref: IssuerRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideServices:
    """Settings of the Services of a listener that is not internal; ``{node}`` in strings is replaced."""

    advertised_host: str | None = None
    """None: the address of the Kubernetes node, or of the load balancer."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    load_balancer_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listener for clients."""

    name: str
    port: int
    """On Kubernetes; the local host chooses ports itself."""
    has_tls: bool = False
    authentication: Authentication | None = None
    """None: clients are not authenticated."""
    certificate: ListenerCertificate | None = None
    """None: the nodes' certificate, if the listener has TLS."""
    type: str = INTERNAL
    outside: OutsideServices = field(default_factory=OutsideServices)
    allow_from: tuple[Json, ...] | None = None
    """Peers of a NetworkPolicy; None: all."""

    @property
    def is_outside(self) -> bool:
        """Whether clients connect through Services of this listener."""
        return self.type != INTERNAL

    @property
    def kafka_name(self) -> str:
        return self.name.upper()

    @property
    def security_protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        transport = "SSL" if self.has_tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.authentication_type in (SCRAM, OAUTH) else transport

    @property
    def authentication_type(self) -> str | None:
        """The type of authentication, as in a User; None if clients are not authenticated."""
        return None if self.authentication is None else self.authentication.type

    @classmethod
    def parse(cls, spec: Json) -> "Listener":
        asked, certificate, allow_from = spec.get("authentication"), spec.get("certificate"), spec.get("allowFrom")
        return cls(
            name=spec["name"],
            port=spec["port"],
            has_tls=spec.get("tls", False),
            authentication=None
            if asked is None
            else Authentication(
                type=asked["type"],
                issuer=asked.get("issuer", ""),
                audience=asked.get("audience", ""),
                jwks_uri=asked.get("jwksUri", ""),
            ),
            certificate=None if certificate is None else _certificate(certificate),
            type=spec.get("type", INTERNAL),
            outside=_outside(spec.get("outside", {})),
            allow_from=None if allow_from is None else tuple(allow_from),
        )


def _outside(spec: Json) -> OutsideServices:
    return OutsideServices(
        advertised_host=spec.get("advertisedHost"),
        annotations=spec.get("annotations", {}),
        load_balancer_class=spec.get("loadBalancerClass"),
    )


def _certificate(spec: Json) -> ListenerCertificate:
    issuer = spec.get("issuerRef")
    return ListenerCertificate(
        secret_name=spec.get("secretName"), issuer_ref=None if issuer is None else IssuerRef(**issuer)
    )


PLAINTEXT = Listener(name="plaintext", port=9092)
"""The only listener of a cluster whose spec has none."""
