"""Steps on Secrets; none of them prints an entry."""

from dataclasses import dataclass

from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret


@dataclass(frozen=True, slots=True)
class WriteSecret:
    """Write a Secret. A user's is written before brokers get the password, so that no password is lost in between."""

    secret: Secret
    owner: Metadata

    def __str__(self) -> str:
        return f"write secret {self.secret.name}"


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    name: str

    def __str__(self) -> str:
        return f"delete secret {self.name}"
