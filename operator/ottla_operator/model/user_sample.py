"""How many Users, and the names of a few: bounded, however many there are."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla_operator.model.document import Document

_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class UserSample:
    """Number of Users, and the names of the first few."""

    count: int = 0
    first: tuple[str, ...] = ()
    """``namespace/name``."""

    @classmethod
    def of(cls, users: Iterable[str]) -> "UserSample":
        """Return the sample of all ``users``: one of each namespace first, so that no namespace hides the others."""
        seen: Counter[str] = Counter()
        ranked = []
        for user in sorted(users):
            namespace = user.partition("/")[0]
            ranked.append((seen[namespace], user))
            seen[namespace] += 1
        return cls(len(ranked), tuple(user for _, user in sorted(ranked)[:_NAMED_MAX]))

    @classmethod
    def parse(cls, document: object) -> "UserSample":
        """Return the sample of which ``document`` is the `document`; an invalid one, perhaps edited, is empty."""
        match document:
            case {"users": int(count), "first": list(first)} if all(isinstance(it, str) for it in first):
                return cls(count, tuple(first[:_NAMED_MAX]))
        return cls()

    @property
    def document(self) -> Document:
        return {"users": self.count, "first": list(self.first)}

    def __str__(self) -> str:
        if not self.first:
            return f"{self.count} Users"
        if self.count == 1:
            return f"User {self.first[0]}"
        more = f" and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return f"{self.count} Users ({', '.join(self.first)}{more})"
