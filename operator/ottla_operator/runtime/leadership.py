"""Holds one candidate's `Election` over a Lease: reads, writes, waits; the decisions are the election's.

Every try has a time limit of half the renew deadline, so that one answer that never comes does not cost the leadership.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from ottla_operator.errors import ApiError, LeadershipLostError
from ottla_operator.model.document import Document
from ottla_operator.runtime.election import Election, LeaseRecord, LeaseTimings

logger = logging.getLogger(__name__)

_JITTER = 0.2
"""Of the wait between two looks, so that candidates that began together do not stay together."""


class LeaseStore(Protocol):
    """The calls of `adapters.kubernetes.api.KubernetesApi` that an election takes; all raise as these do."""

    async def get(self, kind: str, namespace: str, name: str) -> Document | None: ...
    async def create(self, document: Document) -> Document: ...
    async def replace(self, document: Document) -> Document: ...


class Leadership:
    """One process that leads or stands by."""

    def __init__(
        self,
        store: LeaseStore,
        *,
        namespace: str,
        name: str,
        identity: str,
        timings: LeaseTimings | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._name = name
        self._timings = timings or LeaseTimings()
        self._now_s = now_s
        self._election = Election(identity, self._timings)
        self._document: Document | None = None
        """The Lease as it was seen last."""
        self._looked_s: float | None = None
        self._problem = "no look at the Lease was answered yet"

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def holder(self) -> str:
        """Identity of the leader as far as this process knows; empty when nobody leads."""
        return self._election.holder

    @property
    def problem(self) -> str | None:
        """Why this process would not take over if it had to; None when it would: it has read the Lease just now."""
        if self._looked_s is not None and self._now_s() < self._looked_s + self._timings.lease_s:
            return None
        return self._problem

    def may_write(self) -> bool:
        """Tell whether this process leads now."""
        return self._election.may_write(self._now_s())

    async def acquire(self) -> None:
        """Wait until this process leads."""
        told = None
        while True:
            await self._try()
            if self.may_write():
                logger.info("%s leads, by lease %s/%s", self.identity, self._namespace, self._name)
                return
            if self.holder not in (told, self.identity, ""):
                told = self.holder
                logger.info("stands by as %s: %s leads", self.identity, told)
            await asyncio.sleep(self._wait_s())

    async def keep(self) -> None:
        """Renew for ever.

        Raises:
            LeadershipLostError: this process does not lead any more, and must write nothing.
        """
        while self.may_write():
            wait_s = min(self._wait_s(), self._left_s())
            await asyncio.sleep(wait_s)
            if self.may_write():
                await self._try()
        self._raise_lost()

    async def release(self) -> None:
        """Step down: another may lead as soon as it looks. Nothing may be written from before this call."""
        document, record = self._document, self._election.release()
        if record is None:
            return
        try:
            async with asyncio.timeout(self._timings.renew_deadline_s / 2):
                document = document or await self._store.get("Lease", self._namespace, self._name)
                if document is None or _record(document).holder != self.identity:
                    return
                await self._store.replace(self._lease(record, document))
        except (ApiError, OSError, TimeoutError) as error:
            logger.warning("could not release the lease, which expires by itself: %s", _words(error))
        else:
            logger.info("%s has released lease %s/%s", self.identity, self._namespace, self._name)

    async def _try(self) -> None:
        """Look, or bid where that makes sense; what fails is tried again, and only told."""
        try:
            # Neither longer than what is left of the leadership, which ends whether an answer comes or not.
            limit_s = min(self._timings.renew_deadline_s / 2, self._left_s())
            async with asyncio.timeout(limit_s):
                await self._look_or_bid()
        except (ApiError, OSError, TimeoutError) as error:
            self._problem = f"lease {self._namespace}/{self._name}: {_words(error)}"
            logger.warning("could not look at or renew %s", self._problem)
            # Somebody else wrote, or an answer of ours was lost: look before the next bid.
            self._document = None

    async def _look_or_bid(self) -> None:
        if self._document is None or not self.may_write():
            self._see(await self._store.get("Lease", self._namespace, self._name))
        record, sent_s = self._election.bid(self._now_s()), self._now_s()
        if record is None:
            return
        lease = self._lease(record, self._document)
        stored = await (self._store.create(lease) if self._document is None else self._store.replace(lease))
        self._document = stored
        self._election.won(_record(stored), sent_s=sent_s, now_s=self._now_s())
        self._looked_s = self._now_s()

    def _see(self, document: Document | None) -> None:
        self._document = document
        self._looked_s = self._now_s()
        self._election.observe(None if document is None else _record(document), self._now_s())

    def _lease(self, record: LeaseRecord, before: Document | None) -> Document:
        """Return the Lease to write; its times are for people, and nobody here reads them."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = before.get("spec", {}) if before is not None else {}
        acquired = old.get("acquireTime") if old.get("holderIdentity") == self.identity else None
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": dict(before["metadata"]) if before else {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": round(record.lease_s),
                "leaseTransitions": record.transitions,
                "acquireTime": acquired or now,
                "renewTime": now,
            },
        }

    def _left_s(self) -> float:
        """Return how long the leadership lasts unless it is renewed; for ever for who has none."""
        until_s = self._election.leads_until_s()
        return max(until_s - self._now_s(), 0.0) if until_s is not None else float("inf")

    def _wait_s(self) -> float:
        return self._timings.retry_s * random.uniform(1 - _JITTER, 1)  # noqa: S311

    def _raise_lost(self) -> None:
        who = f"{self.holder} leads" if self.holder not in ("", self.identity) else self._problem
        raise LeadershipLostError(f"{self.identity} does not lead any more: {who}")


def _record(document: Document) -> LeaseRecord:
    spec = document.get("spec", {})
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        lease_s=float(spec.get("leaseDurationSeconds") or 1),
        transitions=spec.get("leaseTransitions") or 0,
        version=document["metadata"]["resourceVersion"],
    )


def _words(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
