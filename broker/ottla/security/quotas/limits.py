"""`Limits`: the limit of one kind for a user and a client id, and which clients share it.

The first entity of this list that has the limit decides. Clients that it does not distinguish share a measurement:

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

_CACHED_LIMITS_MAX: Final = 10_000
"""Bound of the cache: clients that use ever new ids must not fill the memory."""


class Limit(NamedTuple):
    """``rate`` per second for all clients of ``shared_by``: user and client id, None for any."""

    shared_by: tuple[str | None, str | None]
    rate: float


class Limits:
    """The limits of one kind, by entity."""

    __slots__ = ("_by_entity", "_cache")

    def __init__(self) -> None:
        self._by_entity: dict[QuotaEntity, float] = {}
        self._cache: dict[tuple[str, str], Limit | None] = {}

    def __bool__(self) -> bool:
        """Return whether any limit is set."""
        return bool(self._by_entity)

    def set(self, entity: QuotaEntity, rate: float | None) -> None:
        """Set one limit, or remove it (None)."""
        self._cache.clear()
        if rate is None:
            self._by_entity.pop(entity, None)
        else:
            self._by_entity[entity] = rate

    def find(self, user: str, client_id: str) -> Limit | None:
        """Return the limit of a client; None for no limit."""
        client = user, client_id
        if client not in self._cache:
            if len(self._cache) >= _CACHED_LIMITS_MAX:
                self._cache.clear()
            self._cache[client] = self._find(user, client_id)
        return self._cache[client]

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
