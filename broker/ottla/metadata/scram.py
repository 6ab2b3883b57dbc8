"""SCRAM credentials of users, and the secret for the decoys of users without credentials.

The secret (`ottla.sasl.scram_decoys`) is kept as the credential of a user without a name, which no principal can have:
a record that Kafka's tools can read, in every snapshot and on every node.

Source: ScramImage, ScramDelta and ScramCredentialData of Apache Kafka 4.3; KIP-900.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.metadata.records import MetadataRecord
from ottla.sasl.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism
from ottla.sasl.scram_decoys import CredentialForm, decoy, form_of
from ottla.wire.messages.metadata_log import RemoveUserScramCredentialRecord, UserScramCredentialRecord


class ScramUser(NamedTuple):
    """User and mechanism of a credential; a user has at most one credential for each mechanism."""

    mechanism: ScramMechanism
    name: str


_DECOY_USER: Final = ScramUser(ScramMechanism.SCRAM_SHA_512, "")
_DECOY_SECRET_BITS: Final = 256


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


def new_decoy_secret(randrange: Callable[[int], int]) -> MetadataRecord:
    """Return the record that sets the cluster's secret for users that do not exist."""
    return _decoy_secret_record(randrange(1 << _DECOY_SECRET_BITS).to_bytes(_DECOY_SECRET_BITS // 8, "big"))


def _decoy_secret_record(secret: bytes) -> MetadataRecord:
    return scram_record(_DECOY_USER, ScramCredential(b"", secret, b"", ITERATIONS_MIN))


@dataclass(frozen=True, slots=True)
class ScramImage:
    """Every credential.

    Attributes:
        decoy_secret: the secret of the decoys of users that do not exist; None if the log has none, as Kafka's.
        forms: number of credentials by mechanism and form.
    """

    credentials: Mapping[ScramUser, ScramCredential] = field(default_factory=dict)
    decoy_secret: bytes | None = field(default=None, repr=False)
    forms: Mapping[ScramMechanism, Mapping[CredentialForm, int]] = field(
        default_factory=lambda: {mechanism: {} for mechanism in ScramMechanism}, repr=False
    )

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.credentials.get(ScramUser(mechanism, user))

    def decoy(self, mechanism: ScramMechanism, user: str, *, default_secret: bytes) -> ScramCredential:
        """Return the decoy of a user without a credential; ``default_secret`` is used when the cluster has none."""
        return decoy(mechanism, user, secret=self.decoy_secret or default_secret, forms=self.forms[mechanism])

    def records(self) -> Iterator[MetadataRecord]:
        if self.decoy_secret is not None:
            yield _decoy_secret_record(self.decoy_secret)
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
        """Remove a user's credential; raises as `replay_credential` does."""
        self.changes[ScramUser(ScramMechanism(record.mechanism), record.name)] = None

    def finish_snapshot(self) -> None:
        """Remove credentials that the snapshot does not name."""
        for user in (_DECOY_USER, *self.image.credentials):
            self.changes.setdefault(user, None)

    def apply(self) -> ScramImage:
        if not self.changes:
            return self.image
        merged = {**self.image.credentials, **self.changes}
        secret = self.image.decoy_secret
        if _DECOY_USER in merged:
            keeper = merged.pop(_DECOY_USER)
            secret = None if keeper is None else keeper.stored_key
        credentials = {user: credential for user, credential in merged.items() if credential is not None}
        return ScramImage(credentials, secret, self._count_forms())

    def _count_forms(self) -> Mapping[ScramMechanism, Mapping[CredentialForm, int]]:
        """Return the image's counts with the changes: counting ten thousand users for each new one would be slow."""
        forms = {mechanism: Counter(self.image.forms[mechanism]) for mechanism in ScramMechanism}
        for user, credential in self.changes.items():
            before = self.image.credentials.get(user)
            if before is not None:
                forms[user.mechanism][form_of(before)] -= 1
            if credential is not None and user != _DECOY_USER:
                forms[user.mechanism][form_of(credential)] += 1
        return {mechanism: +counts for mechanism, counts in forms.items()}


def first_credentials(records: Iterable[MetadataRecord]) -> ScramImage:
    """Return the credentials among the records that a cluster's storage was formatted with."""
    delta = ScramDelta(ScramImage())
    for record in records:
        if isinstance(record.message, UserScramCredentialRecord):
            delta.replay_credential(record.message)
    return delta.apply()
