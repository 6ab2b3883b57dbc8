"""SASL settings: the mechanisms of each listener, and this node's own logins at other nodes.

Mechanisms, limits and JAAS entries are read per listener (``listener.name.LISTENER.``), a JAAS entry per mechanism
as well, as Kafka does. In two respects this is simpler: a SCRAM mechanism needs no JAAS entry unless this node logs
in with it, and neither does OAUTHBEARER.
Source: BrokerSecurityConfigs, SaslConfigs, JaasContext and SaslServerAuthenticator of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.config.broker_keys import parse_broker_value
from ottla.config.jaas import LoginModule, parse_jaas
from ottla.config.listener_overrides import listener_key, listener_text, mechanism_text
from ottla.config.listeners import SASL_PROTOCOLS, Listener
from ottla.config.oauth_settings import OauthSettings, read_oauth_settings, read_token_path
from ottla.errors import ConfigurationError
from ottla.sasl.registry import MECHANISMS

_USER_OPTION: Final = "user_"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SaslListener:
    """Settings of one listener with SASL.

    Attributes:
        mechanisms: offered there, in the configuration's order.
        receive_bytes_max: sasl.server.max.receive.size, for frames before authentication is complete.
        jaas_users: password by user, by mechanism, from the JAAS entries of mechanisms that have their users there.
        oauth: the issuer whose tokens are accepted, if a mechanism takes tokens.
        reauth_ms_max: connections.max.reauth.ms by mechanism; 0 for no limit.
    """

    mechanisms: tuple[str, ...]
    receive_bytes_max: int
    jaas_users: Mapping[str, Mapping[str, str]]
    reauth_ms_max: Mapping[str, int]
    oauth: OauthSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NodeLogin:
    """This node's login at other nodes' listener of one name: a name and a password, or a token in a file."""

    mechanism: str
    user: str = ""
    password: str = ""
    token_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SaslSettings:
    """Settings and logins by listener; listeners without SASL are in neither."""

    listeners: Mapping[str, SaslListener] = field(default_factory=dict)
    logins: Mapping[str, NodeLogin] = field(default_factory=dict)


def read_sasl_settings(
    originals: Mapping[str, str],
    listeners: tuple[Listener, ...],
    *,
    protocols: Mapping[str, str],
    inter_broker: str | None,
    controllers: tuple[str, ...],
) -> SaslSettings:
    """Return the settings of ``listeners``, and the logins for listeners through which nodes reach each other.

    Args:
        originals: ``server.properties``.
        listeners: this node's listeners.
        protocols: listener.security.protocol.map.
        inter_broker: inter.broker.listener.name; None for a node that is not a broker.
        controllers: controller.listener.names.

    Raises:
        ConfigurationError: names the key and what is wrong with it, never a secret.
    """
    reader = _Reader(originals)
    logins = {}
    if inter_broker is not None and _has_sasl(protocols, inter_broker):
        logins[inter_broker] = reader.login(inter_broker, "sasl.mechanism.inter.broker.protocol")
    for name in controllers:
        if _has_sasl(protocols, name):
            logins[name] = reader.login(name, "sasl.mechanism.controller.protocol")
    names = [listener.name for listener in listeners if _has_sasl(protocols, listener.name)]
    with_sasl = {name: reader.listener(name) for name in names}
    for name, login in logins.items():
        if name in with_sasl and login.mechanism not in with_sasl[name].mechanisms:
            raise ConfigurationError(
                f"this node is to log in with {login.mechanism} on {name}, whose sasl.enabled.mechanisms has only "
                f"{', '.join(with_sasl[name].mechanisms)}"
            )
    return SaslSettings(listeners=with_sasl, logins=logins)


def read_sasl_listeners(
    properties: Mapping[str, str], listeners: tuple[Listener, ...], protocols: Mapping[str, str]
) -> Mapping[str, SaslListener]:
    """Return the settings of ``listeners`` with SASL from ``properties``, which include a running node's changes.

    Raises:
        ConfigurationError: as `read_sasl_settings`.
    """
    return read_sasl_settings(properties, listeners, protocols=protocols, inter_broker=None, controllers=()).listeners


def _has_sasl(protocols: Mapping[str, str], listener: str) -> bool:
    return protocols.get(listener) in SASL_PROTOCOLS


class _Reader:
    """Reader of keys for one listener, or for one mechanism of it."""

    def __init__(self, originals: Mapping[str, str]) -> None:
        self._originals = originals

    def listener(self, name: str) -> SaslListener:
        mechanisms = self._mechanisms(name)
        rows = [MECHANISMS[each] for each in mechanisms]
        reauth = "connections.max.reauth.ms"
        return SaslListener(
            mechanisms=mechanisms,
            receive_bytes_max=self._number(name, "sasl.server.max.receive.size"),
            oauth=read_oauth_settings(self._originals, name) if any(row.has_issuer for row in rows) else None,
            jaas_users={row.name: self._jaas_users(name, row.name) for row in rows if row.has_jaas_users},
            reauth_ms_max={
                each: self._parsed_number(reauth, mechanism_text(self._originals, name, each, reauth))
                for each in mechanisms
            },
        )

    def login(self, listener: str, key: str) -> NodeLogin:
        """Return this node's login at ``listener`` with the mechanism that ``key`` names."""
        mechanism = str(parse_broker_value(key, listener_text(self._originals, listener, key)))
        _require_served(mechanism, f"{key} for listener {listener}")
        if MECHANISMS[mechanism].with_token is not None:
            return NodeLogin(mechanism=mechanism, token_path=read_token_path(self._originals, listener))
        jaas_key, module = self._module(listener, mechanism)
        if module is None:
            raise ConfigurationError(
                f"{jaas_key} is missing: this node logs in with {mechanism} on {listener} ({key}). Set it to "
                f"`{MECHANISMS[mechanism].login_module} required username=... password=...;`"
            )
        user, password = module.name_and_password(jaas_key, f", with which this node logs in on {listener} ({key})")
        return NodeLogin(mechanism=mechanism, user=user, password=password)

    def _mechanisms(self, listener: str) -> tuple[str, ...]:
        key = "sasl.enabled.mechanisms"
        value = parse_broker_value(key, listener_text(self._originals, listener, key))
        assert isinstance(value, tuple)
        if not value:
            raise ConfigurationError(f"{key} for listener {listener} is empty: no client could authenticate there")
        for mechanism in value:
            _require_served(mechanism, f"{key} for listener {listener}")
        return value

    def _jaas_users(self, listener: str, mechanism: str) -> dict[str, str]:
        key, module = self._module(listener, mechanism)
        if module is None:
            raise ConfigurationError(
                f"{key} is missing: {mechanism} on listener {listener} has no users without it. Set it to "
                f"`{MECHANISMS[mechanism].login_module} required user_NAME=PASSWORD ...;`"
            )
        return {
            option.removeprefix(_USER_OPTION): password
            for option, password in module.options.items()
            if option.startswith(_USER_OPTION)
        }

    def _module(self, listener: str, mechanism: str) -> tuple[str, LoginModule | None]:
        """Return the key of a JAAS entry, and the entry or None."""
        key = listener_key(listener, "sasl.jaas.config", mechanism=mechanism)
        text = self._originals.get(key)
        if text is None:
            return key, None
        module = parse_jaas(key, text)
        if not module.is_for(mechanism):
            raise ConfigurationError(
                f"{key} has another login module than {mechanism} needs: {MECHANISMS[mechanism].login_module}"
            )
        return key, module

    def _number(self, listener: str, key: str) -> int:
        return self._parsed_number(key, listener_text(self._originals, listener, key))

    def _parsed_number(self, key: str, text: str | None) -> int:
        value = parse_broker_value(key, text)
        assert isinstance(value, int)
        return value


def _require_served(mechanism: str, where: str) -> None:
    if mechanism not in MECHANISMS:
        raise ConfigurationError(
            f"{where} has {mechanism}, which this release does not serve there; it serves {', '.join(MECHANISMS)}"
        )
