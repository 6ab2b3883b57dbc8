"""Access control entries and their codes, as requests and metadata records carry them.

Source: ResourceType, PatternType, AclOperation and AclPermissionType of Apache Kafka 4.3.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

WILDCARD: Final = "*"
"""As a literal resource name: every resource; as a host: every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
ANONYMOUS_PRINCIPAL: Final = "User:ANONYMOUS"
"""The principal of an unauthenticated connection."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


CodeT = TypeVar("CodeT", bound=IntEnum)


class ResourceType(IntEnum):
    """The type of the resource of an entry."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The kind of an entry's resource name; ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operation of an entry or a request; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """Whether an entry allows or denies; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One entry. Entries with equal fields are equal, whatever their ids."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """``Type:name``, usually ``User:name``."""
    host: str
    operation: Operation
    permission_type: PermissionType


def read_code(kind: type[CodeT], value: int) -> CodeT:
    """Return the member of the enumeration ``kind``; its UNKNOWN for a code that is not one of them."""
    try:
        return kind(value)
    except ValueError:
        return kind(0)


def code_word(code: IntEnum) -> str:
    """Return a code as commands and their output write it: ``describe-configs``."""
    return code.name.lower().replace("_", "-")


def code_of(kind: type[CodeT], word: str) -> CodeT:
    """Return the code that `code_word` writes as ``word``."""
    return kind[word.upper().replace("-", "_")]
