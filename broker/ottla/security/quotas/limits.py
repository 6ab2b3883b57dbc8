"""`Limits`: which limit of one kind holds for a user and a client id, and who shares it.

The first entity of this list that has the limit decides; what its type leaves out does not tell clients apart:

===================================== ===================
entity                                measured together
===================================== ===================
user, client id                       that user's clients of that id
user, default client id               each client id of that user
user                                  all of that user
default user, client id               that client id, by user
default user, default client id       each user and client id
default user                          all of each user
client id                             that client id of all users
default client id                     each client id of all users
===================================== ===================

Source: ClientQuotaManager.DefaultQuotaCallback of Apache Kafka 4.3; KIP-55.
"""

from typing import Final, NamedTuple

from ottla.metadata.client_quotas import CLIENT_ID, USER, QuotaEntity

_REMEMBERED_MAX: Final = 10_000
"""Answers; clients that come with ever new ids must not fill the memory."""


class Limit(NamedTuple):
    """``rate`` a second, for whoever has this ``shared_by``: user and client id, None where it does not matter."""

    shared_by: tuple[str | None, str | None]
    rate: float


class Limits:
    """The limits of one kind, by entity."""

    __slots__ = ("_by_entity", "_remembered")

    def __init__(self) -> None:
        self._by_entity: dict[QuotaEntity, float] = {}
        self._remembered: dict[tuple[str, str], Limit | None] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._by_entity)

    def set(self, entity: QuotaEntity, rate: float | None) -> None:
        """Set one limit, or remove it (None)."""
        self._remembered.clear()
        if rate is None:
            self._by_entity.pop(entity, None)
        else:
            self._by_entity[entity] = rate

    def find(self, user: str, client_id: str) -> Limit | None:
        """Return what holds for a client; None for no limit."""
        who = user, client_id
        if who not in self._remembered:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[who] = self._find(user, client_id)
        return self._remembered[who]

    def _find(self, user: str, client_id: str) -> Limit | None:
        either = (CLIENT_ID, client_id), (CLIENT_ID, None)
        for user_part in ((USER, user), (USER, None)):
            for client_part in either:
                rate = self._by_entity.get(frozenset((user_part, client_part)))
                if rate is not None:
                    return Limit((user, client_id), rate)
            rate = self._by_entity.get(frozenset((user_part,)))
            if rate is not None:
                return Limit((user, None), rate)
        for client_part in either:
            rate = self._by_entity.get(frozenset((client_part,)))
            if rate is not None:
                return Limit((None, client_id), rate)
        return None
