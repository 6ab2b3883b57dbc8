"""The part of the port to brokers that is about users: credentials, access control entries and quotas."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.client.admin_security import ScramSecret
from ottla.wire.acl_codes import Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDescription:
    """What a cluster knows of one user."""

    acls: frozenset[Acl] | None = frozenset()
    """Entries of exactly this principal; None where brokers have no authorizer."""
    scram: Mapping[int, int] = field(default_factory=dict)
    """Iterations by mechanism (ScramMechanism)."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Limits of exactly this user, whatever the client id, by Kafka's keys."""


class UserAdmin(Protocol):
    """Admin calls about users, who are named without ``User:``. See `BrokerAdmin` for the errors."""

    async def describe_users(self, names: Collection[str]) -> Mapping[str, UserDescription]:
        """Return what was committed before this call of each of the users, whichever broker answers."""

    async def alter_scram(self, name: str, *, upserts: Sequence[ScramSecret], deletions: Sequence[int]) -> None:
        """Set credentials, and remove those of the mechanisms ``deletions``; what is gone already is no error."""

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Add entries; those that are there already stay."""

    async def delete_acls(self, acls: Sequence[Acl]) -> None:
        """Remove exactly these entries; those that are gone already are no error."""

    async def alter_quotas(self, name: str, limits: Mapping[str, float | None]) -> None:
        """Set the user's limits by key; None removes one."""
