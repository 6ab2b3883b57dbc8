"""`ClientSecurity`: TLS and SASL settings of a client, from the keys of Kafka's own clients.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/ottla/ca.pem

Other keys of a Java client's file are ignored. A token for OAUTHBEARER comes from the file in
``sasl.oauthbearer.token.endpoint.url=file:...``, read at every authentication, from an issuer in the same key with
``https:`` (`client.token_endpoint`), or from the option ``token`` of the login module.
Source: CommonClientConfigs, SaslConfigs and SslConfigs of Apache Kafka 4.3; KIP-768.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ottla.config.jaas import LoginModule, parse_jaas
from ottla.config.listeners import SASL_PROTOCOLS, SECURITY_PROTOCOLS, TLS_PROTOCOLS
from ottla.config.oauth_settings import TOKEN_URL
from ottla.config.properties import parse_properties
from ottla.config.tls_settings import TlsSettings, read_client_tls_settings
from ottla.errors import ConfigurationError
from ottla.sasl.client_login import ClientLogin, Login, TokenLogin
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.sasl.registry import MECHANISMS

if TYPE_CHECKING:
    import ssl

    from ottla.tls.contexts import Contexts

_JAAS: Final = "sasl.jaas.config"


@dataclass(slots=True, kw_only=True, repr=False)
class ClientSecurity:
    """The TLS and SASL settings of one client. Its repr has no secret; create it with `from_properties`.

    Attributes:
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        tls: settings; None without TLS.
        login: None without SASL.
        bootstrap_servers: of the properties; None if they have none.
    """

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    login: Login | None = None
    bootstrap_servers: str | None = None
    _contexts: "Contexts | None" = field(default=None, init=False)

    @classmethod
    def from_file(cls, path: Path) -> "ClientSecurity":
        """Read a client's properties file; raises as `from_properties`, or when the file cannot be read."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            said = getattr(error, "strerror", None) or "it is no text in UTF-8"
            raise ConfigurationError(f"{path} cannot be read: {said}") from None
        try:
            return cls.from_properties(parse_properties(text))
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from error

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "ClientSecurity":
        """Parse ``properties``.

        Raises:
            ConfigurationError: names the key and the problem, never a secret.
        """
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigurationError(
                f"security.protocol={protocol} is not known; it may be {', '.join(SECURITY_PROTOCOLS)}"
            )
        return cls(
            protocol=protocol,
            tls=read_client_tls_settings(properties) if protocol in TLS_PROTOCOLS else None,
            login=_login(properties) if protocol in SASL_PROTOCOLS else None,
            bootstrap_servers=properties.get("bootstrap.servers", "").strip() or None,
        )

    @property
    def has_certificate(self) -> bool:
        """Whether this client has a certificate of its own."""
        return self.tls is not None and self.tls.key_store is not None

    def tls_context(self) -> "ssl.SSLContext | None":
        """Return the TLS context of the next connection, None without TLS; changed files are read again.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        if self.tls is None:
            return None
        from ottla.tls.contexts import make_contexts
        from ottla.tls.material import stamp_of

        if self._contexts is None or self._contexts.stamp != stamp_of(self.tls):
            self._contexts = make_contexts(self.tls, opened=False)
        return self._contexts.client


def _login(properties: Mapping[str, str]) -> Login:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    row = MECHANISMS.get(mechanism)
    if row is None:
        raise ConfigurationError(
            f"sasl.mechanism={mechanism} is not supported by this client; it may be {', '.join(MECHANISMS)}"
            + ("" if "sasl.mechanism" in properties else " (the default is GSSAPI)")
        )
    form = f"{row.login_module} required"
    example = f"{form};" if row.with_token is not None else f'{form} username="..." password="...";'
    text = properties.get(_JAAS)
    if text is None:
        raise ConfigurationError(f"{_JAAS} is missing: {mechanism} needs `{example}`")
    module = parse_jaas(_JAAS, text)
    if not module.is_for(mechanism):
        raise ConfigurationError(f"{_JAAS} has another login module than sasl.mechanism={mechanism} needs: `{example}`")
    if row.with_token is not None:
        return _token_login(properties, module)
    user, password = module.name_and_password(_JAAS, f"; it is to be `{example}`")
    is_token = row.with_delegation_token is not None and module.options.get("tokenauth", "").lower() == "true"
    return ClientLogin(mechanism, user, password, is_delegation_token=is_token)


def _token_login(properties: Mapping[str, str], module: LoginModule) -> TokenLogin:
    token = module.options.get("token")
    if token:
        return TokenLogin(lambda: token)
    url = urlsplit(properties.get(TOKEN_URL, "").strip())
    if url.scheme == "https":
        from ottla.client.token_endpoint import EndpointLogin, read_endpoint_settings

        return EndpointLogin(read_endpoint_settings(properties, module.options, url))
    if url.scheme != "file":
        raise ConfigurationError(
            f"OAUTHBEARER needs a token: name the issuer's endpoint, {TOKEN_URL}=https://HOST/PATH, or a file with a "
            f'token from another program, {TOKEN_URL}=file:///PATH, or write one as token="..." in {_JAAS}'
        )
    path = Path(unquote(url.path))

    def read() -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationFailedError(f"the file with the token cannot be read: {path}: {error}") from None

    return TokenLogin(read)
