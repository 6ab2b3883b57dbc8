"""`ListenerContexts`: the TLS context of each listener, and its renewal while the node runs.

A context is built from settings and key material. When the files or the settings change, a new context is used for new
connections; open connections keep theirs. Unusable certificates are reported once, and the old context stays.
Source: SslFactory, SslEngineValidator and DefaultSslEngineFactory of Apache Kafka 4.3.
"""

import logging
import ssl
from collections.abc import Mapping
from typing import Final

from ottla.config.node_config import NodeConfig
from ottla.config.tls_settings import TlsSettings, listeners_with_tls, read_tls_settings
from ottla.errors import ConfigurationError
from ottla.metrics.tls import TlsMetrics
from ottla.quoting import one_line
from ottla.tls.contexts import Contexts, make_contexts
from ottla.tls.errors import explain
from ottla.tls.material import stamp_of

logger = logging.getLogger(__name__)

_DATES: Final = (9, 10)
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""
_DAY_MS: Final = 86_400_000
EXPIRY_WARNING_MS: Final = 30 * _DAY_MS
"""A certificate that expires sooner is reported every day."""


class ListenerContexts:
    """TLS contexts by listener. `as_server` and `as_client` are for the loop; `renew` may run on one other thread.

    Raises of the constructor:
        ConfigurationError: a listener's settings or files cannot be used; the message names the listener.
    """

    def __init__(self, config: NodeConfig, metrics: TlsMetrics, *, now_ms: int) -> None:
        self._metrics = metrics
        self._opened = {listener.name for listener in config.listeners}
        self._inter_broker = config.inter_broker_listener_name
        self._names = listeners_with_tls(config)
        self._contexts: dict[str, Contexts] = {}
        self._rejected: dict[str, tuple[object, ...]] = {}
        self._reported: set[str] = set()
        self._warn_again_at_ms: dict[str, int] = {}
        for name in self._names:
            self._use(self._create(read_tls_settings(config.originals, name, opened=name in self._opened)))
        self.warn_of_expiry(now_ms)

    def as_server(self, listener: str) -> ssl.SSLContext | None:
        """See `runtime.handshakes.TlsContexts`."""
        contexts = self._contexts.get(listener)
        return None if contexts is None else contexts.server

    def as_client(self, listener: str) -> ssl.SSLContext | None:
        """See `runtime.handshakes.TlsContexts`."""
        contexts = self._contexts.get(listener)
        return None if contexts is None else contexts.client

    def renew(self, properties: Mapping[str, str]) -> list[str]:
        """Check for changed files and settings; return the listeners whose new connections get new certificates.

        ``properties`` are the node's, with dynamic changes applied. Unusable certificates are tried twice, as files may
        be written one after the other, and then reported once.
        """
        renewed = []
        for name in self._names:
            old = self._contexts[name]
            try:
                settings = read_tls_settings(properties, name, opened=name in self._opened)
            except ConfigurationError as error:
                self._reject(name, (str(error),), error)
                continue
            state = (settings, stamp_of(settings))
            if state == (old.settings, old.stamp):
                self._clear_rejection(name)
                continue
            if self._rejected.get(name) == state and name in self._reported:
                continue
            try:
                created = self._create(settings)
                _require_compatible(old, created)
            except ConfigurationError as error:
                self._reject(name, state, error)
                continue
            self._clear_rejection(name)
            self._use(created)
            self._metrics.reloads += 1
            renewed.append(name)
            logger.info("listener %s has new certificates; open connections keep theirs", name)
        return renewed

    def check(self, properties: Mapping[str, str]) -> None:
        """Validate changed TLS settings without using them.

        Raises:
            ConfigurationError: their certificates cannot be used.
        """
        for name in self._names:
            old = self._contexts[name]
            settings = read_tls_settings(properties, name, opened=name in self._opened)
            if settings != old.settings:
                _require_compatible(old, self._create(settings))

    def warn_of_expiry(self, now_ms: int) -> None:
        """Log once a day for each certificate that it has expired, is not valid yet, or expires soon."""
        for name, contexts in self._contexts.items():
            if contexts.material is None or now_ms < self._warn_again_at_ms.get(name, 0):
                continue
            expires_ms = contexts.material.expires_at_ms
            valid_from_ms = max(int(it.not_valid_before_utc.timestamp() * 1000) for it in contexts.material.chain)
            if expires_ms <= now_ms:
                problem = "has expired: clients reject it"
            elif valid_from_ms > now_ms:
                problem = f"is not valid before {_date(valid_from_ms)}: clients reject it"
            elif expires_ms - now_ms < EXPIRY_WARNING_MS:
                problem = f"expires in {(expires_ms - now_ms) // _DAY_MS} days, on {_date(expires_ms)}"
            else:
                continue
            self._warn_again_at_ms[name] = now_ms + _DAY_MS
            logger.warning("the certificate of listener %s %s; replace it", name, problem)

    def _create(self, settings: TlsSettings) -> Contexts:
        created = make_contexts(settings, opened=settings.listener in self._opened)
        if settings.listener == self._inter_broker and created.server is not None:
            require_trusts_itself(created)
        return created

    def _use(self, contexts: Contexts) -> None:
        name = contexts.settings.listener
        self._contexts[name] = contexts
        self._warn_again_at_ms.pop(name, None)
        if contexts.material is not None:
            self._metrics.certificates_expire_at_ms[name] = contexts.material.expires_at_ms

    def _reject(self, name: str, state: tuple[object, ...], error: ConfigurationError) -> None:
        if self._rejected.get(name) != state:
            self._rejected[name] = state
            self._reported.discard(name)
        elif name not in self._reported:
            self._reported.add(name)
            self._metrics.failed_reloads += 1
            reason = one_line(str(error))
            logger.error("new certificates of listener %s cannot be used, it keeps its current ones: %s", name, reason)

    def _clear_rejection(self, name: str) -> None:
        self._rejected.pop(name, None)
        self._reported.discard(name)


def _require_compatible(old: Contexts, new: Contexts) -> None:
    """Reject a certificate for another name, unless the configuration allows it.

    Raises:
        ConfigurationError: the distinguished name differs, or an alternative name is missing.
    """
    if old.material is None or new.material is None:
        return
    listener = new.settings.listener
    if old.material.subject != new.material.subject and not new.settings.allows_dn_changes:
        raise ConfigurationError(
            f"listener {listener}: the distinguished name was {old.material.subject.rfc4514_string()} and would be "
            f"{new.material.subject.rfc4514_string()}; ssl.allow.dn.changes=true allows that"
        )
    missing = old.material.alternative_names - new.material.alternative_names
    if missing and not new.settings.allows_san_changes:
        raise ConfigurationError(
            f"listener {listener}: the new certificate is no longer for {', '.join(sorted(missing))}; "
            "ssl.allow.san.changes=true allows that"
        )


def require_trusts_itself(contexts: Contexts) -> None:
    """Try a handshake of an inter-broker listener with itself: brokers connect to each other with the same settings.

    Raises:
        ConfigurationError: brokers would not trust each other, or have no TLS version or cipher in common.
    """
    assert contexts.server is not None
    # The host names that peers will connect to are unknown here.
    checks_names, contexts.client.check_hostname = contexts.client.check_hostname, False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        contexts.server.wrap_bio(to_server, to_client, server_side=True),
        contexts.client.wrap_bio(to_client, to_server),
    ]
    contexts.client.check_hostname = checks_names
    try:
        for _ in range(4):
            sides = [side for side in sides if not _step(side)]
    except ssl.SSLError as error:
        if getattr(error, "verify_code", 0) in _DATES:
            return  # `ListenerContexts.warn_of_expiry` reports it
        raise ConfigurationError(
            f"listener {contexts.settings.listener} is the inter-broker listener, and it does not trust its own "
            f"certificate: {explain(error)}. Add its CA to ssl.truststore.location (and client and server to the "
            "certificate's extended key usage)."
        ) from error


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _date(unix_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
