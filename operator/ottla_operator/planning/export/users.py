"""The manifests of users, pure: of every principal that has a password, entries or limits."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.sasl.scram import ScramMechanism
from ottla.wire.acl_codes import WILDCARD_PRINCIPAL, Acl
from ottla_operator.model.document import Document
from ottla_operator.model.listeners import OAUTH, SCRAM, TLS_EXTERNAL
from ottla_operator.model.schema import structural_schema
from ottla_operator.model.user import QUOTAS
from ottla_operator.planning.export.exported import Destination, Exported
from ottla_operator.planning.export.names import object_names
from ottla_operator.planning.export.rules import entry_in_words, rules_of

PASSWORD_KEY: Final = "password"  # noqa: S105 - the key of an entry
_PASSWORD_SUFFIX: Final = "-password"  # noqa: S105 - of a Secret's name
_USER: Final = "User:"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSource:
    """A principal as brokers describe it."""

    principal: str
    acls: frozenset[Acl] = frozenset()
    scram: Mapping[int, int] = field(default_factory=dict)
    """Iterations by mechanism (ScramMechanism)."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Limits for all client ids, by Kafka's keys."""

    @property
    def name(self) -> str:
        """The principal without its type."""
        return self.principal.removeprefix(_USER)


def export_users(
    users: Sequence[UserSource],
    destination: Destination,
    *,
    super_users: Collection[str] = (),
    taken: Collection[str] = (),
) -> list[Exported]:
    """Return the manifests of ``users``, sorted by principal.

    Args:
        users: each principal once.
        destination: where the objects are to be created.
        super_users: principals that no User may have.
        taken: names of other Users in the namespace.
    """
    names = object_names({user.name for user in users}, taken=taken)
    secrets = _secret_names(names, taken)
    return [
        _export_user(user, names[user.name], secrets[user.name], destination, super_users)
        for user in sorted(users, key=lambda it: it.principal)
    ]


def _secret_names(names: Mapping[str, str], others: Collection[str]) -> dict[str, str]:
    """Return the name of the password's Secret by user: not that of another User, whose own Secret has its name."""
    taken, found = {*names.values(), *others}, dict[str, str]()
    for user, name in sorted(names.items()):
        secret = name + _PASSWORD_SUFFIX
        while secret in taken:
            secret += "-0"
        found[user] = secret
        taken.add(secret)
    return found


def _export_user(
    user: UserSource, name: str, secret: str, destination: Destination, super_users: Collection[str]
) -> Exported:
    if (reason := _inexpressible(user, super_users)) is not None:
        left = [*map(entry_in_words, sorted(user.acls)), *_limits_in_words(user.quotas)]
        return Exported(document=None, hints=tuple(left), warnings=(f"{user.principal} has no manifest: {reason}",))
    authentication, hints = _authentication(user, secret)
    rules, acls_left = rules_of(user.acls)
    quotas, quotas_left = _quotas(user.quotas)
    spec: Document = {} if name == user.name else {"userName": user.name}
    spec["authentication"] = authentication
    if rules:
        spec["authorization"] = {"rules": rules}
    if quotas:
        spec["quotas"] = quotas
    left = [*map(entry_in_words, acls_left), *_limits_in_words(quotas_left)]
    if not left:
        return Exported(document=destination.manifest("User", name, spec), hints=hints)
    # Adoption would remove what the manifest lacks.
    warning = f"{user.principal} is paused here: its manifest cannot have {len(left)} of its entries and limits"
    return Exported(
        document=destination.manifest("User", name, {**spec, "paused": True}),
        hints=(*hints, *(f"not in the manifest, and removed if it is not paused: {it}" for it in left)),
        warnings=(warning,),
    )


def _inexpressible(user: UserSource, super_users: Collection[str]) -> str | None:
    """Return why no User can have the principal; None if one can."""
    if user.principal == WILDCARD_PRINCIPAL:
        return "it stands for all users; its entries stay"
    if user.principal in super_users:
        return "it is a super user of the brokers, which no User can be; it stays"
    if not user.principal.startswith(_USER):
        return "it is no principal of the type User; its entries stay"
    wanted = structural_schema("User")["properties"]["spec"]["properties"]["userName"]
    is_valid = re.fullmatch(wanted["pattern"].strip("^$"), user.name) and len(user.name) <= wanted["maxLength"]
    if not is_valid or user.name.startswith(_USER):
        return "spec.userName cannot have its name; it stays"
    return None


def _authentication(user: UserSource, secret: str) -> tuple[Document, tuple[str, ...]]:
    """Return the type of authentication with which the operator changes no credential, and what to know of it."""
    if not user.scram:
        if "=" in user.name:
            return {"type": TLS_EXTERNAL}, (
                f"{user.principal} has no password here: its certificate is issued elsewhere",
            )
        # Nothing of this type is in the cluster, and so nothing changes, also if it is a user of another mechanism.
        return {"type": OAUTH}, (
            f"{user.principal} has no password here: it authenticates by a token, or in another way",
        )
    reference = {"name": secret, "key": PASSWORD_KEY}
    hint = (
        f"its password belongs into the Secret {secret}, key {PASSWORD_KEY}; until then its credential is not changed"
    )
    hints = [hint]
    if len(user.scram) > 1:
        kept, other = ScramMechanism.SCRAM_SHA_512.mechanism_name, ScramMechanism.SCRAM_SHA_256.mechanism_name
        hints.append(f"it has both mechanisms; from then on only {kept}, so that clients with {other} cannot connect")
    return {"type": SCRAM, "password": {"valueFrom": {"secretKeyRef": reference}}}, tuple(hints)


def _quotas(limits: Mapping[str, float]) -> tuple[Document, dict[str, float]]:
    """Return the quotas of the spec, and the limits that it cannot have."""
    fields = structural_schema("User")["properties"]["spec"]["properties"]["quotas"]["properties"]
    quotas: Document = {}
    for name, key in QUOTAS.items():
        limit, wanted = limits.get(key), fields[name]
        if limit is None or not wanted["minimum"] <= limit <= wanted["maximum"]:
            continue
        if limit == int(limit):
            quotas[name] = int(limit)
        elif wanted["type"] == "number":
            quotas[name] = limit
    return quotas, {key: limit for key, limit in limits.items() if key not in {QUOTAS[name] for name in quotas}}


def _limits_in_words(limits: Mapping[str, float]) -> list[str]:
    return [f"quota {key}={limit:g}" for key, limit in sorted(limits.items())]
