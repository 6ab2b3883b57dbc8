"""The steps on Secrets; none of them prints what is in one."""

from dataclasses import dataclass

from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret


@dataclass(frozen=True, slots=True)
class WriteSecret:
    """Write a Secret. That of a user comes before the password, so that none is lost on its way to the brokers."""

    secret: Secret
    owner: Metadata

    def __str__(self) -> str:
        return f"write secret {self.secret.name}"


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    name: str

    def __str__(self) -> str:
        return f"delete secret {self.name}"
