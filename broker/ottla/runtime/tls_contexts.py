"""`ListenerContexts`: what each listener's connections are secured with, and how that changes while the node runs.

A context is made of settings and key material. When the files or the settings change, a new one takes its place for new
connections; those that are open keep theirs. What cannot be used is said once, and the old one stays.
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
"""From so long before a certificate's end on, the log says every day that it is near."""


class ListenerContexts:
    """See the module. `as_server` and `as_client` are for the loop; `renew` may run on any one other thread.

    Raises of the constructor:
        ConfigurationError: a listener's settings or files cannot be used; it is named.
    """

    def __init__(self, config: NodeConfig, metrics: TlsMetrics, *, now_ms: int) -> None:
        self._metrics = metrics
        self._opened = {door.name for door in config.listeners}
        self._inter_broker = config.inter_broker_listener_name
        self._names = listeners_with_tls(config)
        self._contexts: dict[str, Contexts] = {}
        self._refused: dict[str, tuple[object, ...]] = {}
        self._is_said: set[str] = set()
        self._warn_again_at_ms: dict[str, int] = {}
        for name in self._names:
            made = self._make(read_tls_settings(config.originals, name, opened=name in self._opened))
            self._take(made)
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
        """Look for changed files and settings; return the listeners whose new connections get new certificates.

        ``properties`` are those of the node with what was changed since its start. What cannot be used is tried twice,
        as files may be written one after the other, and then said once.
        """
        renewed = []
        for name in self._names:
            old = self._contexts[name]
            try:
                settings = read_tls_settings(properties, name, opened=name in self._opened)
            except ConfigurationError as error:
                self._refuse(name, (str(error),), error)
                continue
            state = (settings, stamp_of(settings))
            if state == (old.settings, old.stamp):
                self._forgive(name)
                continue
            if self._refused.get(name) == state and name in self._is_said:
                continue
            try:
                made = self._make(settings)
                _require_compatible(old, made)
            except ConfigurationError as error:
                self._refuse(name, state, error)
                continue
            self._forgive(name)
            self._take(made)
            self._metrics.reloads += 1
            renewed.append(name)
            logger.info("listener %s has new certificates; connections that are open keep theirs", name)
        return renewed

    def check(self, properties: Mapping[str, str]) -> None:
        """Try certificates that somebody wants to have used from now on.

        Raises:
            ConfigurationError: they cannot be used.
        """
        for name in self._names:
            old = self._contexts[name]
            settings = read_tls_settings(properties, name, opened=name in self._opened)
            if settings != old.settings:
                _require_compatible(old, self._make(settings))

    def warn_of_expiry(self, now_ms: int) -> None:
        """Say of each certificate once a day that it has expired, is not valid yet, or will end soon."""
        for name, contexts in self._contexts.items():
            if contexts.material is None or now_ms < self._warn_again_at_ms.get(name, 0):
                continue
            ends_ms = contexts.material.expires_at_ms
            begins_ms = max(int(it.not_valid_before_utc.timestamp() * 1000) for it in contexts.material.chain)
            if ends_ms <= now_ms:
                said = "has expired: clients refuse it"
            elif begins_ms > now_ms:
                said = f"is not valid before {_date(begins_ms)}: clients refuse it"
            elif ends_ms - now_ms < EXPIRY_WARNING_MS:
                said = f"ends in {(ends_ms - now_ms) // _DAY_MS} days, on {_date(ends_ms)}"
            else:
                continue
            self._warn_again_at_ms[name] = now_ms + _DAY_MS
            logger.warning("the certificate of listener %s %s; put a new one in its place", name, said)

    def _make(self, settings: TlsSettings) -> Contexts:
        made = make_contexts(settings, opened=settings.listener in self._opened)
        if settings.listener == self._inter_broker and made.server is not None:
            require_trusts_itself(made)
        return made

    def _take(self, made: Contexts) -> None:
        name = made.settings.listener
        self._contexts[name] = made
        self._warn_again_at_ms.pop(name, None)
        if made.material is not None:
            self._metrics.certificates_expire_at_ms[name] = made.material.expires_at_ms

    def _refuse(self, name: str, state: tuple[object, ...], error: ConfigurationError) -> None:
        if self._refused.get(name) != state:
            self._refused[name] = state
            self._is_said.discard(name)
        elif name not in self._is_said:
            self._is_said.add(name)
            self._metrics.failed_reloads += 1
            reason = one_line(str(error))
            logger.error("new certificates cannot be used, listener %s keeps those that it has: %s", name, reason)

    def _forgive(self, name: str) -> None:
        self._refused.pop(name, None)
        self._is_said.discard(name)


def _require_compatible(old: Contexts, new: Contexts) -> None:
    """Refuse a certificate for another name, unless the configuration allows that."""
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
            f"listener {listener}: the new certificate is not for {', '.join(sorted(missing))} any more; "
            "ssl.allow.san.changes=true allows that"
        )


def require_trusts_itself(contexts: Contexts) -> None:
    """Have a listener of brokers shake hands with itself: as every broker dials the others with the same settings.

    Raises:
        ConfigurationError: they would not trust each other, or have no version or cipher in common.
    """
    assert contexts.server is not None
    # Whom the others will dial is not known here.
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
            return  # `ListenerContexts.warn_of_expiry` says so
        raise ConfigurationError(
            f"listener {contexts.settings.listener} is the one between brokers, and its own certificate does not pass: "
            f"{explain(error)}. Put its authority into ssl.truststore.location (and its use into the certificate)."
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
