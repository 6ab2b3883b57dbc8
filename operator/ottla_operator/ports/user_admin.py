"""The part of the port to brokers that is about users: credentials, access control entries and quotas."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.client.admin_security import ScramSecret
from ottla.wire.acl_codes import Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDescription:
    """Entries of one user in a cluster."""

    acls: frozenset[Acl] | None = frozenset()
    """Entries of exactly this principal; None if brokers have no authorizer."""
    scram: Mapping[int, int] = field(default_factory=dict)
    """Iterations by mechanism (ScramMechanism)."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Limits of exactly this user, for all client ids, by Kafka's keys."""


class UserAdmin(Protocol):
    """Admin calls about users, named without ``User:``. See `BrokerAdmin` for the errors."""

    async def describe_users(self, names: Collection[str]) -> Mapping[str, UserDescription]:
        """Return the entries of each user; everything committed before the call is in it."""

    async def alter_scram(self, name: str, *, upserts: Sequence[ScramSecret], deletions: Sequence[int]) -> None:
        """Set credentials, and delete those of the mechanisms ``deletions``; missing ones are no error."""

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Add entries; existing ones stay."""

    async def delete_acls(self, acls: Sequence[Acl]) -> None:
        """Delete exactly these entries; missing ones are no error."""

    async def alter_quotas(self, name: str, limits: Mapping[str, float | None]) -> None:
        """Set the user's limits by key; None removes one."""
