"""The Secret of a user, pure: the same user, listener and credential give the same entries, byte for byte.

=======================  ==============================================================================
``type`` ``provider``    ``kafka`` and ``ottla``: how servicebinding.io finds it
``bootstrap-servers``    the bootstrap address; ``bootstrapServers`` is the same
``securityProtocol``     Kafka's name
``username``             the user's name; ``user`` is the same
``password``             with ``saslMechanism`` and ``sasl.jaas.config``: of users that have one
``user.crt``             the certificate, and ``user.key`` its key: of users of the type tls
``ca.crt``               the authorities that clients have to trust, if any
``client.properties``    for Java clients
``librdkafka.json``      for clients of librdkafka
=======================  ==============================================================================

Annotations keep public facts of the credential. The number of iterations is chosen at random with each password:
brokers never show a password, but they show that number, so a password that was changed elsewhere is detected.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla.sasl.scram import ScramMechanism
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.document import Document
from ottla_operator.model.nodes import render_properties
from ottla_operator.model.objects.metadata import MANAGED_BY_LABEL, MANAGER
from ottla_operator.model.secret import Secret, ownership
from ottla_operator.model.timestamps import valid_timestamp
from ottla_operator.model.user import User

if TYPE_CHECKING:
    from ottla_operator.model.certificates import Leaf

SECRET_TYPE = "servicebinding.io/kafka"  # noqa: S105 - a type
CREDENTIAL_ANNOTATION = "ottla.dev/credential"
CERTIFICATE_REVISION_ANNOTATION = "ottla.dev/certificate-revision"
TEMPLATE_ANNOTATION = "ottla.dev/template"
USER_CERTIFICATE, USER_KEY = "user.crt", "user.key"
_JAAS = "sasl.jaas.config"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "OAUTHBEARER"
_CREDENTIAL_ENTRIES = frozenset({"password", "saslMechanism", _JAAS, USER_CERTIFICATE, USER_KEY})
_CREDENTIAL_ANNOTATIONS = frozenset({CREDENTIAL_ANNOTATION, CERTIFICATE_REVISION_ANNOTATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A password and how brokers store it. Never prints the password."""

    password: str = field(repr=False)
    mechanism: ScramMechanism
    iterations: int
    revision: str = ""
    """``spec.authentication.rotation.revision`` for which the password was created."""
    previous_iterations: int = 0
    """Of the previous credential, which has the other mechanism; 0: there is none."""
    previous_until: str = ""
    """RFC 3339; the end of the previous credential's overlap. One that cannot be read is over: it would never end."""

    @property
    def other_mechanism(self) -> ScramMechanism:
        return next(each for each in ScramMechanism if each is not self.mechanism)

    def at(self, now: str) -> "Credential":
        """Return this credential as of ``now``: without the previous one once its overlap is over."""
        is_over = self.previous_until <= now
        return replace(self, previous_iterations=0, previous_until="") if is_over else self


def access_secret(
    user: User, access: ClientAccess, credential: Credential | None, certificate: "Leaf | None" = None
) -> Secret:
    """Return the Secret of ``user``; ``credential`` and ``certificate`` are None for users without them."""
    if credential is not None:
        access = replace(access, mechanism=credential.mechanism.mechanism_name)
    elif access.has_sasl and access.mechanism is None:
        access = replace(access, mechanism=_OAUTH)
    annotations = {
        **user.secret_annotations,
        **ownership(user.metadata),
        TEMPLATE_ANNOTATION: _digest(user),
        **({} if credential is None else {CREDENTIAL_ANNOTATION: _described(credential)}),
        **({} if certificate is None else {CERTIFICATE_REVISION_ANNOTATION: user.rotation}),
    }
    return Secret(
        name=user.metadata.name,
        type=SECRET_TYPE,
        entries=_entries(user, access, credential, certificate),
        labels={**user.secret_labels, MANAGED_BY_LABEL: MANAGER},
        annotations=annotations,
        owner_uid=user.metadata.uid,
    )


def secret_with_kept_credential(user: User, access: ClientAccess, found: Secret) -> Secret:
    """Return the Secret of ``user`` for ``access``, with the credential that ``found`` has.

    Address and trusted certificates do not wait for a password or certificate that cannot be chosen now. The entries of
    the credential and its annotations stay byte for byte: an edited password must still be recognized later.
    """
    # Imported here: the library is slow to load.
    from ottla_operator.model.certificates import Leaf

    certificate, key = found.entries.get(USER_CERTIFICATE), found.entries.get(USER_KEY)
    wanted = access_secret(
        user,
        replace(access, mechanism=found.entries.get("saslMechanism", access.mechanism)),
        credential_of(found),
        None if certificate is None or key is None else Leaf(certificate=certificate, key=key),
    )
    return replace(
        wanted,
        entries=dict(sorted(_keep(wanted.entries, found.entries, _CREDENTIAL_ENTRIES).items())),
        annotations=_keep(wanted.annotations, found.annotations, _CREDENTIAL_ANNOTATIONS),
    )


def _keep(wanted: Mapping[str, str], found: Mapping[str, str], kept: frozenset[str]) -> dict[str, str]:
    """Return ``wanted``, but the keys ``kept`` as they are in ``found``."""
    others = {key: value for key, value in wanted.items() if key not in kept}
    return others | {key: value for key, value in found.items() if key in kept}


def credential_of(secret: Secret | None) -> Credential | None:
    """Return the credential in ``secret``; None if there is no usable one."""
    if secret is None:
        return None
    password = secret.entries.get("password")
    try:
        said = json.loads(secret.annotations.get(CREDENTIAL_ANNOTATION, ""))
        found = Credential(
            password=password or "",
            mechanism=ScramMechanism[said["mechanism"].replace("-", "_")],
            iterations=int(said["iterations"]),
            revision=str(said["revision"]),
            previous_iterations=int(said.get("previousIterations", 0)),
            previous_until=valid_timestamp(said.get("previousUntil")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found.password and found.password.isprintable() else None


def is_untouched(user: User, secret: Secret | None) -> bool:
    """Tell whether the password of ``secret`` is the one that was written: another entry holds a copy."""
    password = None if secret is None else secret.entries.get("password")
    return secret is not None and password is not None and secret.entries.get(_JAAS) == _jaas(user.name, password)


def _entries(
    user: User, access: ClientAccess, credential: Credential | None, certificate: "Leaf | None"
) -> dict[str, str]:
    entries = {
        "type": "kafka",
        "provider": "ottla",
        "bootstrap-servers": access.bootstrap_servers,
        "bootstrapServers": access.bootstrap_servers,
        "securityProtocol": access.security_protocol,
        "username": user.name,
        "user": user.name,
    }
    if access.mechanism is not None:
        entries["saslMechanism"] = access.mechanism
    if credential is not None:
        entries["password"] = credential.password
        entries[_JAAS] = _jaas(user.name, credential.password)
    if access.ca_pem is not None:
        entries["ca.crt"] = access.ca_pem
    java, librdkafka = _java(access, entries.get(_JAAS)), _librdkafka(user, access, credential)
    if certificate is not None:
        entries |= {USER_CERTIFICATE: certificate.certificate, USER_KEY: certificate.key}
        java |= keystore_properties(certificate)
        librdkafka |= {"ssl.certificate.pem": certificate.certificate, "ssl.key.pem": certificate.key}
    entries["client.properties"] = _ascii(render_properties(java))
    entries["librdkafka.json"] = json.dumps(librdkafka, indent=2, sort_keys=True) + "\n"
    return dict(sorted(entries.items()))


def keystore_properties(certificate: "Leaf") -> dict[str, str]:
    """Return the properties with which a Java client presents ``certificate``."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": certificate.key,
        "ssl.keystore.certificate.chain": certificate.certificate,
    }


def truststore_properties(trusted: str) -> dict[str, str]:
    """Return the properties with which a Java client trusts the certificates ``trusted`` (PEM), and no others."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}


def _java(access: ClientAccess, jaas: str | None) -> dict[str, str]:
    settings = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.security_protocol}
    if access.has_sasl and access.mechanism is not None:
        settings["sasl.mechanism"] = access.mechanism
        if jaas is not None:
            settings[_JAAS] = jaas
    if access.ca_pem is not None:
        settings |= truststore_properties(access.ca_pem)
    return settings


def _librdkafka(user: User, access: ClientAccess, credential: Credential | None) -> dict[str, str]:
    settings = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.security_protocol.lower()}
    if access.has_sasl and access.mechanism is not None:
        settings["sasl.mechanisms"] = access.mechanism
        if credential is not None:
            settings |= {"sasl.username": user.name, "sasl.password": credential.password}
    if access.ca_pem is not None:
        settings["ssl.ca.pem"] = access.ca_pem
    return settings


def _jaas(name: str, password: str) -> str:
    return f"{_LOGIN_MODULE} required username={_quoted(name)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _ascii(text: str) -> str:
    """Return ``text`` for java.util.Properties, which reads bytes as Latin-1: letters beyond ASCII are escaped."""
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def _described(credential: Credential) -> str:
    said: Document = {
        "mechanism": credential.mechanism.mechanism_name,
        "iterations": credential.iterations,
        "revision": credential.revision,
    }
    if credential.previous_iterations:
        said |= {
            "previousIterations": credential.previous_iterations,
            "previousUntil": credential.previous_until,
        }
    return json.dumps(said, sort_keys=True)


def _digest(user: User) -> str:
    """Return a digest of the template, so that removed labels and annotations are removed from the Secret."""
    template = json.dumps([dict(user.secret_labels), dict(user.secret_annotations)], sort_keys=True)
    return hashlib.sha256(template.encode()).hexdigest()[:16]
