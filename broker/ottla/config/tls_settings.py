"""TLS settings of one listener: versions, ciphers, key and trusted certificates, verification.

A client's settings have the same keys. The files are not read here but by `ottla.tls.material`.
Source: SslConfigs, DefaultSslEngineFactory (Kafka 4.3), which reject the same combinations of keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.config.broker_keys import BROKER_KEYS, parse_broker_value
from ottla.config.key import ConfigValue
from ottla.config.listener_overrides import listener_key, listener_text
from ottla.config.listeners import TLS_PROTOCOLS
from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from ottla.config.node_config import NodeConfig

SERVED_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Store:
    """Location of a key or of trusted certificates: a file of ``type``, or PEM in the configuration itself.

    The prefix of its keys, ``what``, is ``ssl.keystore`` or ``ssl.truststore``. Its repr shows no secret.
    """

    what: str
    type: str
    location: str | None
    password: str | None
    key: str | None = None
    """PEM of the private key, if it is in the configuration."""
    certificates: str | None = None
    """PEM of the chain, or of the trusted certificates, if they are in the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TlsSettings:
    """TLS of one listener, as server and as client; or of a client, whose ``listener`` is empty."""

    listener: str
    versions: tuple[str, ...]
    """A subset of `SERVED_VERSIONS`."""
    cipher_suites: tuple[str, ...]
    """Names of Java or of OpenSSL; empty for the library's default."""
    client_auth: str
    """``none``, ``requested`` or ``required``."""
    verifies_host: bool
    """As a client: whether the server's certificate must be for the host name that it connects to."""
    key_store: Store | None
    key_password: str | None
    trust_store: Store | None
    allows_dn_changes: bool
    allows_san_changes: bool

    @property
    def place(self) -> str:
        """The listener or client of these settings, for errors."""
        return _place(self.listener)


def listeners_with_tls(config: "NodeConfig") -> list[str]:
    """Return the names of the listeners that this node opens, or connects to, with TLS, sorted."""
    names = {listener.name for listener in config.listeners}
    names.add(config.controller_listener_names[0])
    if config.is_broker:
        names.add(config.inter_broker_listener_name)
    protocols = config.listener_security_protocol_map
    return sorted(name for name in names if protocols.get(name) in TLS_PROTOCOLS)


def check_tls_settings(config: "NodeConfig") -> None:
    """Check the settings of every listener with TLS; raises as `read_tls_settings`."""
    opened = {listener.name for listener in config.listeners}
    for name in listeners_with_tls(config):
        read_tls_settings(config.originals, name, opened=name in opened)


def read_tls_settings(properties: Mapping[str, str], listener: str, *, opened: bool = True) -> TlsSettings:
    """Return the settings of ``listener`` from ``server.properties`` with a running node's changes.

    ``opened`` is False for a listener that this node only connects to, which needs no certificate of its own.

    Raises:
        ConfigurationError: a value is not valid for its key, or keys contradict each other.
    """
    values = {
        key: _parse(properties, listener, key)
        for key in BROKER_KEYS
        if key.startswith("ssl.") and key != "ssl.principal.mapping.rules"
    }
    key_store = _key_store(values)
    trust_store = _trust_store(values)
    settings = TlsSettings(
        listener=listener,
        versions=_versions(values, listener),
        cipher_suites=_words(values["ssl.cipher.suites"]),
        client_auth=str(values["ssl.client.auth"]),
        verifies_host=_verifies_host(values),
        key_store=key_store,
        key_password=_text(values["ssl.key.password"]),
        trust_store=trust_store,
        allows_dn_changes=bool(values["ssl.allow.dn.changes"]),
        allows_san_changes=bool(values["ssl.allow.san.changes"]),
    )
    if opened:
        _require_complete(settings)
    return settings


def read_client_tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """Return the TLS settings of a client's properties; raises as `read_tls_settings`."""
    return read_tls_settings(properties, "", opened=False)


def _place(listener: str) -> str:
    return f"listener {listener}" if listener else "this client"


def _parse(properties: Mapping[str, str], listener: str, key: str) -> ConfigValue:
    try:
        return parse_broker_value(key, listener_text(properties, listener, key))
    except ConfigurationError as error:
        raise ConfigurationError(f"{_place(listener)}: {error}") from error


def _text(value: ConfigValue) -> str | None:
    return str(value) if value else None


def _words(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _versions(values: Mapping[str, ConfigValue], listener: str) -> tuple[str, ...]:
    wanted = _words(values["ssl.enabled.protocols"]) or SERVED_VERSIONS
    insecure = [version for version in wanted if version not in SERVED_VERSIONS]
    if insecure:
        raise ConfigurationError(
            f"{_place(listener)}: ssl.enabled.protocols has {', '.join(insecure)}, which is not secure any more; it "
            f"may be {', '.join(SERVED_VERSIONS)}"
        )
    if values["ssl.protocol"] not in ("TLS", *SERVED_VERSIONS):
        raise ConfigurationError(
            f"{_place(listener)}: ssl.protocol={values['ssl.protocol']} is not served; it may be TLSv1.3 or TLSv1.2"
        )
    return tuple(version for version in SERVED_VERSIONS if version in wanted)


def _verifies_host(values: Mapping[str, ConfigValue]) -> bool:
    algorithm = _text(values["ssl.endpoint.identification.algorithm"])
    if algorithm is not None and algorithm.lower() != "https":
        raise ConfigurationError(
            f"ssl.endpoint.identification.algorithm={algorithm} is not known; it may be https, or empty to accept a "
            "certificate for any name"
        )
    return algorithm is not None


def _key_store(values: Mapping[str, ConfigValue]) -> Store | None:
    what = "ssl.keystore"
    key, chain = _text(values[f"{what}.key"]), _text(values[f"{what}.certificate.chain"])
    if key is None and chain is None:
        return _file_store(what, values)
    if key is None or chain is None:
        missing = f"{what}.key" if key is None else f"{what}.certificate.chain"
        raise ConfigurationError(
            f"{missing} is missing: {what}.key and {what}.certificate.chain are to be set together"
        )
    _require_pem_alone(what, f"{what}.key", values)
    return Store(what=what, type="PEM", location=None, password=None, key=key, certificates=chain)


def _trust_store(values: Mapping[str, ConfigValue]) -> Store | None:
    what = "ssl.truststore"
    certificates = _text(values[f"{what}.certificates"])
    if certificates is None:
        return _file_store(what, values)
    _require_pem_alone(what, f"{what}.certificates", values)
    return Store(what=what, type="PEM", location=None, password=None, certificates=certificates)


def _require_pem_alone(what: str, inline: str, values: Mapping[str, ConfigValue]) -> None:
    """Reject PEM in the configuration together with a file, a password or another type."""
    if values[f"{what}.type"] != "PEM":
        raise ConfigurationError(f"{inline} is PEM: set {what}.type=PEM (it is {values[f'{what}.type']})")
    for other in (f"{what}.location", f"{what}.password"):
        if _text(values[other]) is not None:
            raise ConfigurationError(f"{inline} and {other} are both set: remove one of them")


def _file_store(what: str, values: Mapping[str, ConfigValue]) -> Store | None:
    location, password = _text(values[f"{what}.location"]), _text(values[f"{what}.password"])
    kind = str(values[f"{what}.type"])
    if kind not in STORE_TYPES:
        raise ConfigurationError(f"{what}.type={kind} is not known; it may be {', '.join(STORE_TYPES[:2])}")
    if location is None:
        if password is not None:
            raise ConfigurationError(f"{what}.password is set, but {what}.location is not")
        return None
    if kind == "PEM" and password is not None:
        raise ConfigurationError(
            f"{what}.password does not go with {what}.type=PEM: a PEM file has no password"
            + ("; that of its key is ssl.key.password" if what == "ssl.keystore" else "")
        )
    return Store(what=what, type=kind, location=location, password=password)


def _require_complete(settings: TlsSettings) -> None:
    if settings.key_store is None:
        raise ConfigurationError(
            f"listener {settings.listener} is for TLS and has no certificate: set ssl.keystore.type=PEM and "
            f"ssl.keystore.location (or {listener_key(settings.listener, 'ssl.keystore.location')})"
        )
    if settings.client_auth != "none" and settings.trust_store is None:
        raise ConfigurationError(
            f"listener {settings.listener} has ssl.client.auth={settings.client_auth} and no trust store: set "
            "ssl.truststore.location, or ssl.truststore.certificates, to the certificates of the clients' CAs"
        )
