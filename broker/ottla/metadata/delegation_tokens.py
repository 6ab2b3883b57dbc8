"""Delegation tokens (KIP-48): who owns them, who may renew them, and until when they are valid.

The metadata holds no secret of a token: its HMAC is derived from its id and `delegation.token.secret.key`.
Times are wall-clock milliseconds, as they are stored. Source: DelegationTokenImage and TokenInformation of Kafka 4.3.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.metadata.records import MetadataRecord
from ottla.wire.messages.metadata_log import DelegationTokenRecord, RemoveDelegationTokenRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """One token; principals are written ``TYPE:NAME``.

    Attributes:
        token_id: the user name of a login with it.
        owner: the principal that a login becomes.
        requester: the principal that created it.
        renewers: the principals besides the owner that may renew and expire it.
        max_ms: beyond it the token cannot be renewed.
        expiry_ms: the token is valid up to and including it.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    def may_be_changed_by(self, principal: str) -> bool:
        """Return whether the principal is the owner or a renewer."""
        return principal == self.owner or principal in self.renewers

    def belongs_to(self, principal: str) -> bool:
        """Return whether the principal is the owner, the requester or a renewer: those see the token."""
        return principal == self.requester or self.may_be_changed_by(principal)

    def to_record(self) -> MetadataRecord:
        record = DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=self.issue_ms,
            max_timestamp=self.max_ms,
            expiration_timestamp=self.expiry_ms,
            token_id=self.token_id,
        )
        return MetadataRecord(record, 0)


@dataclass(frozen=True, slots=True)
class DelegationTokensImage:
    """Every token by its id, expired ones until the controller removes them."""

    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    def records(self) -> Iterator[MetadataRecord]:
        for _, token in sorted(self.tokens.items()):
            yield token.to_record()


class DelegationTokensDelta:
    """Changes on the way from one `DelegationTokensImage` to the next: a token by its id, None for a removal."""

    __slots__ = ("changes", "image")

    def __init__(self, image: DelegationTokensImage) -> None:
        self.image = image
        self.changes: dict[str, DelegationToken | None] = {}

    def replay_token(self, record: DelegationTokenRecord) -> None:
        self.changes[record.token_id] = DelegationToken(
            token_id=record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_ms=record.issue_timestamp,
            max_ms=record.max_timestamp,
            expiry_ms=record.expiration_timestamp,
        )

    def replay_removal(self, record: RemoveDelegationTokenRecord) -> None:
        self.changes[record.token_id] = None

    def finish_snapshot(self) -> None:
        """Remove tokens that the snapshot does not name."""
        for token_id in self.image.tokens:
            self.changes.setdefault(token_id, None)

    def apply(self) -> DelegationTokensImage:
        if not self.changes:
            return self.image
        merged = {**self.image.tokens, **self.changes}
        return DelegationTokensImage({token_id: token for token_id, token in merged.items() if token is not None})
