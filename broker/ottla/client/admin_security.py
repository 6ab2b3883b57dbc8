"""Authentication, authorization and quotas: SCRAM credentials, access control entries, client quotas.

A password leaves this process only as the salted keys that SCRAM needs. Source: KIP-140, KIP-290, KIP-546, KIP-554.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.admin_base import AdminBase
from ottla.client.errors import raise_for
from ottla.errors import ErrorCode
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.acl_filter import AclFilter
from ottla.wire.messages import alter_client_quotas as alter_quotas
from ottla.wire.messages import alter_user_scram_credentials as alter_scram
from ottla.wire.messages import describe_client_quotas as describe_quotas
from ottla.wire.messages import describe_user_scram_credentials as describe_scram
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_EXACT, _DEFAULT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScramSecret:
    """The salted keys of a password, for a broker. Its repr has no secret."""

    mechanism: int
    """ScramMechanism: 1 is SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """The entity of a quota by user, client id or address; "" stands for the default of that kind, None for none."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def names(self) -> dict[str, str | None]:
        """Return the names by the type of the protocol; None there is the default."""
        given = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name or None for kind, name in given.items() if name is not None}

    @classmethod
    def named(cls, names: Mapping[str, str | None]) -> "QuotaEntity":
        """Read what `names` returns."""
        given = {kind.replace("-", "_"): name or "" for kind, name in names.items()}
        return cls(user=given.get("user"), client_id=given.get("client_id"), ip=given.get("ip"))


class SecurityAdmin(AdminBase):
    """Calls about users, entries and quotas."""

    # --- access control entries

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Return the entries that match ``wanted``, all without it, sorted.

        Raises:
            KafkaError: SECURITY_DISABLED if brokers have no authorizer, CLUSTER_AUTHORIZATION_FAILED.
        """
        request = DescribeAclsRequest(**(wanted or AclFilter()).fields())

        async def attempt() -> list[Acl]:
            response = await self._send_to_any(request, DescribeAclsResponse)
            raise_for(response.error_code, response.error_message)
            return sorted(_acl(found, acl) for found in response.resources for acl in found.acls)

        return await self._retry(attempt)

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add entries; existing ones are not changed.

        Raises:
            KafkaError: of the first rejected entry; others may have been added.
        """
        creations = []
        for acl in acls:
            fields = acl._asdict()
            creations.append(AclCreation(resource_pattern_type=fields.pop("pattern_type"), **fields))
        if not creations:
            return

        async def attempt() -> None:
            response = await self._send_to_any(CreateAclsRequest(creations=creations), CreateAclsResponse)
            for result in response.results:
                raise_for(result.error_code, result.error_message)

        await self._retry(attempt)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[Acl]:
        """Delete the entries that match any of ``filters``; return the deleted ones, sorted.

        Raises:
            KafkaError: of the first rejected filter; the entries of others may have been deleted.
        """
        wanted = [DeleteAclsFilter(**one.fields()) for one in filters]
        if not wanted:
            return []

        async def attempt() -> list[Acl]:
            response = await self._send_to_any(DeleteAclsRequest(filters=wanted), DeleteAclsResponse)
            removed = set()
            for result in response.filter_results:
                raise_for(result.error_code, result.error_message)
                for acl in result.matching_acls:
                    raise_for(acl.error_code, acl.error_message)
                    removed.add(_acl(acl, acl))
            return sorted(removed)

        return await self._retry(attempt)

    # --- SCRAM credentials

    async def describe_scram(self, users: Sequence[str] | None = None) -> dict[str, dict[int, int]]:
        """Return the iterations by mechanism, by user: of ``users``, or of all. Users without credentials are left out.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED, ...
        """
        names = None if users is None else [describe_scram.UserName(name=name) for name in users]
        request = describe_scram.DescribeUserScramCredentialsRequest(users=names)

        async def attempt() -> dict[str, dict[int, int]]:
            response = await self._send_to_any(request, describe_scram.DescribeUserScramCredentialsResponse)
            raise_for(response.error_code, response.error_message)
            found = {}
            for result in response.results:
                if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                    continue
                raise_for(result.error_code, result.error_message)
                found[result.user] = {info.mechanism: info.iterations for info in result.credential_infos}
            return found

        return await self._retry(attempt)

    async def alter_scram(
        self, *, upserts: Mapping[str, Sequence[ScramSecret]] | None = None, deletions: Iterable[tuple[str, int]] = ()
    ) -> None:
        """Create, change and delete credentials of users.

        Args:
            upserts: by user.
            deletions: user and mechanism.

        Raises:
            KafkaError: of the first rejected user: RESOURCE_NOT_FOUND, UNACCEPTABLE_CREDENTIAL, ...
        """
        request = alter_scram.AlterUserScramCredentialsRequest(
            deletions=[alter_scram.ScramCredentialDeletion(name=user, mechanism=each) for user, each in deletions],
            upsertions=[
                alter_scram.ScramCredentialUpsertion(
                    name=user,
                    mechanism=secret.mechanism,
                    iterations=secret.iterations,
                    salt=secret.salt,
                    salted_password=secret.salted_password,
                )
                for user, secrets in (upserts or {}).items()
                for secret in secrets
            ],
        )

        async def attempt() -> None:
            response = await self._send_to_any(request, alter_scram.AlterUserScramCredentialsResponse)
            for result in response.results:
                raise_for(result.error_code, result.error_message)

        await self._retry(attempt)

    # --- client quotas

    async def describe_client_quotas(self, exactly: QuotaEntity | None = None) -> dict[QuotaEntity, dict[str, float]]:
        """Return the limits by key, of ``exactly`` one entity, or of all.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED, ...
        """
        names = {} if exactly is None else exactly.names()
        request = describe_quotas.DescribeClientQuotasRequest(
            components=[
                describe_quotas.ComponentData(
                    entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
                )
                for kind, name in names.items()
            ],
            strict=exactly is not None,
        )

        async def attempt() -> dict[QuotaEntity, dict[str, float]]:
            response = await self._send_to_any(request, describe_quotas.DescribeClientQuotasResponse)
            raise_for(response.error_code, response.error_message)
            return {
                QuotaEntity.named({each.entity_type: each.entity_name for each in found.entity}): {
                    value.key: value.value for value in found.values
                }
                for found in response.entries or ()
            }

        return await self._retry(attempt)

    async def alter_client_quotas(self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]) -> None:
        """Set limits by key, by entity; None removes one.

        Raises:
            KafkaError: of the first rejected entity; others may have been changed.
        """
        request = alter_quotas.AlterClientQuotasRequest(
            entries=[
                alter_quotas.AlterClientQuotasRequestEntryData(
                    entity=[
                        alter_quotas.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity.names().items()
                    ],
                    ops=[
                        alter_quotas.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in limits.items()
                    ],
                )
                for entity, limits in changes.items()
            ]
        )

        async def attempt() -> None:
            response = await self._send_to_any(request, alter_quotas.AlterClientQuotasResponse)
            for entry in response.entries:
                raise_for(entry.error_code, entry.error_message)

        await self._retry(attempt)


def _acl(of: DescribeAclsResource | DeleteAclsMatchingAcl, entry: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    """Convert an access control entry of a response, with its resource."""
    return Acl(
        ResourceType(of.resource_type),
        of.resource_name,
        PatternType(of.pattern_type),
        entry.principal,
        entry.host,
        Operation(entry.operation),
        PermissionType(entry.permission_type),
    )
