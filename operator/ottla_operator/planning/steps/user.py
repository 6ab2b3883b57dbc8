"""Steps of a User; none of them prints a secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.admin_security import ScramSecret
from ottla.sasl.scram import ScramMechanism
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret

_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class AlterScram:
    """Set credentials, and delete others by their mechanism."""

    user: str
    upserts: tuple[ScramSecret, ...] = field(repr=False)
    deletions: tuple[int, ...]

    def __str__(self) -> str:
        said = [f"set {ScramMechanism(it.mechanism).mechanism_name}" for it in self.upserts]
        said += [f"remove {ScramMechanism(it).mechanism_name}" for it in self.deletions]
        return f"password of user {self.user}: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class CreateAcls:
    user: str
    acls: tuple[Acl, ...]

    def __str__(self) -> str:
        return f"give user {self.user}: {_listed(self.acls)}"


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    user: str
    acls: tuple[Acl, ...]

    def __str__(self) -> str:
        return f"take from user {self.user}: {_listed(self.acls)}"


@dataclass(frozen=True, slots=True)
class AlterQuotas:
    """Set limits by Kafka's keys; None removes one."""

    user: str
    limits: Mapping[str, float | None]

    def __str__(self) -> str:
        said = [f"no {key}" if limit is None else f"{key} {limit:.15g}" for key, limit in self.limits.items()]
        return f"limits of user {self.user}: {', '.join(said)}"


UserStep = WriteSecret | DeleteSecret | AlterScram | CreateAcls | DeleteAcls | AlterQuotas


def _listed(acls: tuple[Acl, ...]) -> str:
    more = f" and {len(acls) - _SHOWN_MAX} more" if len(acls) > _SHOWN_MAX else ""
    return "; ".join(map(_said, acls[:_SHOWN_MAX])) + more


def _said(acl: Acl) -> str:
    permission, operation = PermissionType(acl.permission_type).name.lower(), Operation(acl.operation).name.lower()
    is_prefix = acl.pattern_type == PatternType.PREFIXED
    where = "" if acl.host == "*" else f" from {acl.host}"
    kind = ResourceType(acl.resource_type).name.lower()
    return f"{permission} {operation} on {kind} {acl.resource_name}{'...' if is_prefix else ''}{where}"
