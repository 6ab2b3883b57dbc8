"""An admitted User manifest as a typed value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.tls.distinguished_name import escape
from ottla.wire.acl_codes import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.model.document import Document, Json
from ottla_operator.model.listeners import SCRAM, TLS, TLS_EXTERNAL
from ottla_operator.model.manifest import Metadata, ObjectKey, referred_cluster

USER_FINALIZER = "ottla.dev/user"
"""On every User: its entries in the cluster are removed before the object is deleted."""

# The names of the spec, and what they stand for in the protocol.
RESOURCE_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
PATTERN_TYPES = {"literal": PatternType.LITERAL, "prefix": PatternType.PREFIXED}
PERMISSION_TYPES = {"allow": PermissionType.ALLOW, "deny": PermissionType.DENY}
OPERATIONS = {
    "All": Operation.ALL,
    "Read": Operation.READ,
    "Write": Operation.WRITE,
    "Create": Operation.CREATE,
    "Delete": Operation.DELETE,
    "Alter": Operation.ALTER,
    "Describe": Operation.DESCRIBE,
    "ClusterAction": Operation.CLUSTER_ACTION,
    "DescribeConfigs": Operation.DESCRIBE_CONFIGS,
    "AlterConfigs": Operation.ALTER_CONFIGS,
    "IdempotentWrite": Operation.IDEMPOTENT_WRITE,
    "TwoPhaseCommit": Operation.TWO_PHASE_COMMIT,
}
QUOTAS = {
    "producerByteRate": "producer_byte_rate",
    "consumerByteRate": "consumer_byte_rate",
    "requestPercentage": "request_percentage",
    "controllerMutationRate": "controller_mutation_rate",
}


class SecretKey(NamedTuple):
    """One entry of a Secret that a user provides."""

    name: str
    key: str

    def __str__(self) -> str:
        return f"key {self.key} of Secret {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A User manifest, admitted."""

    metadata: Metadata
    cluster: ObjectKey
    name: str
    """The principal without its type."""
    authentication: str
    common_name: str = ""
    """Of the certificate that the operator issues, for a user of the type tls."""
    password_from: SecretKey | None = None
    """None: the operator creates the password."""
    rotation: str = ""
    """Another value requests another password, or another certificate."""
    overlap_s: int = 0
    acls: frozenset[Acl] = frozenset()
    quotas: Mapping[str, float] = field(default_factory=dict)
    """By Kafka's keys."""
    secret_labels: Mapping[str, str] = field(default_factory=dict)
    secret_annotations: Mapping[str, str] = field(default_factory=dict)
    known_principal: str | None = None
    """``status.principal``; None before the operator first sent the user's entries to brokers."""
    is_paused: bool = False
    """Nothing is changed (``spec.paused``)."""

    @property
    def principal(self) -> str:
        return f"User:{self.name}"

    @property
    def has_password(self) -> bool:
        return self.authentication == SCRAM

    @property
    def has_certificate(self) -> bool:
        """Whether the operator issues one."""
        return self.authentication == TLS

    @property
    def claim(self) -> tuple[str, ...]:
        """The key that no two Users may share."""
        return ("User", *self.cluster, self.principal)

    @classmethod
    def parse(cls, document: Document) -> "User":
        spec, metadata = document["spec"], Metadata.parse(document)
        authentication = spec["authentication"]
        rotation, template = authentication.get("rotation", {}), spec.get("secret", {})
        reference = authentication.get("password", {}).get("valueFrom", {}).get("secretKeyRef")
        given = spec.get("userName", metadata.name)
        name = _name(given, authentication["type"])
        return cls(
            metadata=metadata,
            cluster=referred_cluster(document),
            name=name,
            authentication=authentication["type"],
            common_name=given if authentication["type"] == TLS else "",
            password_from=None if reference is None else SecretKey(reference["name"], reference["key"]),
            rotation=rotation.get("revision", ""),
            overlap_s=rotation.get("overlapSeconds", 0),
            acls=frozenset(
                acl for rule in spec.get("authorization", {}).get("rules", ()) for acl in _acls(rule, f"User:{name}")
            ),
            quotas={QUOTAS[key]: float(value) for key, value in sorted(spec.get("quotas", {}).items())},
            secret_labels=dict(sorted(template.get("labels", {}).items())),
            secret_annotations=dict(sorted(template.get("annotations", {}).items())),
            known_principal=document.get("status", {}).get("principal"),
            is_paused=spec.get("paused", False),
        )


def _name(given: str, authentication: str) -> str:
    """Return the user's name in the cluster; certificates name their users by a distinguished name."""
    if authentication == TLS_EXTERNAL and "=" in given:
        return given
    return f"CN={escape(given)}" if authentication in (TLS, TLS_EXTERNAL) else given


def _acls(rule: Json, principal: str) -> list[Acl]:
    resource = rule["resource"]
    kind = RESOURCE_TYPES[resource["type"]]
    return [
        Acl(
            kind,
            CLUSTER_NAME if kind is ResourceType.CLUSTER else resource["name"],
            PATTERN_TYPES[resource.get("patternType", "literal")],
            principal,
            rule.get("host", "*"),
            OPERATIONS[operation],
            PERMISSION_TYPES[rule.get("type", "allow")],
        )
        for operation in rule["operations"]
    ]
