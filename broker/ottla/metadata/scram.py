"""SCRAM credentials: what the cluster knows of users' passwords.

Source: ScramImage, ScramDelta and ScramCredentialData of Apache Kafka 4.3; KIP-900.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.records import MetadataRecord
from ottla.sasl.scram import ScramCredential, ScramMechanism
from ottla.wire.messages.metadata_log import RemoveUserScramCredentialRecord, UserScramCredentialRecord


class ScramUser(NamedTuple):
    """Whose credential, and for which mechanism; a user has at most one for each."""

    mechanism: ScramMechanism
    name: str


def scram_record(user: ScramUser, credential: ScramCredential) -> MetadataRecord:
    """Return the record that sets ``user``'s credential."""
    record = UserScramCredentialRecord(
        name=user.name,
        mechanism=user.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
    return MetadataRecord(record, 0)


@dataclass(frozen=True, slots=True)
class ScramImage:
    """Every credential."""

    credentials: Mapping[ScramUser, ScramCredential] = field(default_factory=dict)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.credentials.get(ScramUser(mechanism, user))

    def records(self) -> Iterator[MetadataRecord]:
        for user, credential in sorted(self.credentials.items(), key=lambda each: each[0]):
            yield scram_record(user, credential)


class ScramDelta:
    """Changes on the way from one `ScramImage` to the next: a credential per user, None for a removal."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ScramImage) -> None:
        self.image = image
        self.changes: dict[ScramUser, ScramCredential | None] = {}

    def replay_credential(self, record: UserScramCredentialRecord) -> None:
        """Set a user's credential.

        Raises:
            ValueError: this release does not know the mechanism.
        """
        user = ScramUser(ScramMechanism(record.mechanism), record.name)
        # Copies: the record's bytes are views on the batch that it came in.
        self.changes[user] = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )

    def replay_removal(self, record: RemoveUserScramCredentialRecord) -> None:
        """Take a user's credential away; raises as `replay_credential` does."""
        self.changes[ScramUser(ScramMechanism(record.mechanism), record.name)] = None

    def finish_snapshot(self) -> None:
        """Note as gone what the snapshot did not name."""
        for user in self.image.credentials:
            self.changes.setdefault(user, None)

    def apply(self) -> ScramImage:
        if not self.changes:
            return self.image
        merged = {**self.image.credentials, **self.changes}
        return ScramImage({user: credential for user, credential in merged.items() if credential is not None})


def first_credentials(records: Iterable[MetadataRecord]) -> ScramImage:
    """Return the credentials among the records that a cluster's storage was formatted with."""
    delta = ScramDelta(ScramImage())
    for record in records:
        if isinstance(record.message, UserScramCredentialRecord):
            delta.replay_credential(record.message)
    return delta.apply()
