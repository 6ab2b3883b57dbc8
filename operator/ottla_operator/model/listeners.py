"""The doors of a cluster for clients: what a listener of the spec says, and what Kafka calls it."""

from dataclasses import dataclass

from ottla_operator.model.document import Json

SCRAM, TLS, OAUTH = "scram-sha-512", "tls", "oauth"
"""Types of authentication, of listeners as of Users."""
TLS_EXTERNAL = "tls-external"
"""Of Users whose certificate somebody else makes: they come in where certificates are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """How clients of one listener prove who they are."""

    type: str
    issuer: str = ""
    """With the two that follow: of the type oauth only."""
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
    """Where a listener has a certificate from that the cluster's authority did not sign: one of the two is there."""

    secret_name: str | None = None
    issuer_ref: IssuerRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One door for clients."""

    name: str
    port: int
    """On Kubernetes; a laptop has ports of its own."""
    has_tls: bool = False
    authentication: Authentication | None = None
    """None: nobody is asked."""
    certificate: ListenerCertificate | None = None
    """None: one of the cluster's authority, where there is TLS."""

    @property
    def kafka_name(self) -> str:
        return self.name.upper()

    @property
    def security_protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        transport = "SSL" if self.has_tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.asks_for in (SCRAM, OAUTH) else transport

    @property
    def asks_for(self) -> str | None:
        """The type of authentication, a User's as well; None where nobody is asked."""
        return None if self.authentication is None else self.authentication.type

    @classmethod
    def parse(cls, spec: Json) -> "Listener":
        asked, certificate = spec.get("authentication"), spec.get("certificate")
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
        )


def _certificate(spec: Json) -> ListenerCertificate:
    issuer = spec.get("issuerRef")
    return ListenerCertificate(
        secret_name=spec.get("secretName"), issuer_ref=None if issuer is None else IssuerRef(**issuer)
    )


PLAINTEXT = Listener(name="plaintext", port=9092)
"""The only one of a cluster whose spec names none."""
