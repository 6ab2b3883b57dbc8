"""Users whose Secrets delay the next phase of an authority, pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ottla_operator.model import certificates
from ottla_operator.model.secret import Secret
from ottla_operator.model.user_secret import USER_CERTIFICATE
from ottla_operator.planning.certificates.authorities import AuthorityState

_ENTRY_MAX: Final = 16_384
"""Characters of an entry that are read: Users may be many, and others can fill their Secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSecret:
    """The entries of a User's Secret that the rotation of an authority depends on."""

    user: str
    """``namespace/name``."""
    is_readable: bool = True
    """Whether the Secret could be read; it may be outdated otherwise."""
    trusted: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)

    @classmethod
    def parse(cls, user: str, secret: Secret | None) -> "UserSecret | None":
        """Return the entries in ``secret``; None if it is not the Secret of a User."""
        if secret is None or "User" not in secret.owners:
            return None
        trusted, certificate = secret.entries.get("ca.crt", ""), secret.entries.get(USER_CERTIFICATE, "")
        return cls(user=user, trusted=trusted[:_ENTRY_MAX], certificate=certificate[:_ENTRY_MAX])


UNLISTED: Final = UserSecret(user="*/*", is_readable=False)
"""In place of all Users, if they could not be listed."""


def users_without_trust(users: Iterable[UserSecret], state: AuthorityState | None) -> tuple[str, ...]:
    """Return the Users whose clients trust the present authority ``state``, and not the one that will sign."""
    if state is None or state.following is None:
        return ()
    present, following = state.present.certificate, state.following.certificate
    # The operator writes each certificate in one form. No search for it in an edited entry can take long.
    return tuple(_outdated(users, lambda it: present in it.trusted and following not in it.trusted))


def users_of_previous(users: Iterable[UserSecret], state: AuthorityState | None) -> tuple[str, ...]:
    """Return the Users with a certificate by an authority that will not be trusted any more."""
    if state is None or state.following is not None or not state.previous:
        return ()
    previous = state.previous
    return tuple(_outdated(users, lambda it: any(certificates.is_issued_by(it.certificate, old) for old in previous)))


def _outdated(users: Iterable[UserSecret], is_outdated: Callable[[UserSecret], bool]) -> Iterator[str]:
    return (it.user for it in users if not it.is_readable or is_outdated(it))
