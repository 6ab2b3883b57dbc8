"""Runs one candidate's `Election` over a Lease: reads, writes and waits; the decisions are the election's.

Every attempt has a time limit of half the renew deadline, so that one lost response does not cost the leadership.
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
"""Of the wait between two observations, so that candidates that started together spread out."""


class LeaseStore(Protocol):
    """The calls of `adapters.kubernetes.api.KubernetesApi` that an election uses; all raise its errors."""

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
        """The Lease as last read or written."""
        self._observed_s: float | None = None
        self._problem = "the Lease has not been read yet"

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def holder(self) -> str:
        """Identity of the leader as far as this process knows; empty without one."""
        return self._election.holder

    @property
    def problem(self) -> str | None:
        """Why this process could not take over; None if it has read the Lease within the last lease duration."""
        if self._observed_s is not None and self._now_s() < self._observed_s + self._timings.lease_s:
            return None
        return self._problem

    def may_write(self) -> bool:
        """Tell whether this process leads now."""
        return self._election.may_write(self._now_s())

    async def acquire(self) -> None:
        """Wait until this process leads."""
        logged_holder = None
        while True:
            await self._try()
            if self.may_write():
                logger.info("%s leads, by lease %s/%s", self.identity, self._namespace, self._name)
                return
            if self.holder not in (logged_holder, self.identity, ""):
                logged_holder = self.holder
                logger.info("stands by as %s: %s leads", self.identity, logged_holder)
            await asyncio.sleep(self._wait_s())

    async def keep(self) -> None:
        """Renew until the leadership is lost.

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
        """Step down: another may lead as soon as it reads the Lease. No write of this process may be pending."""
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
            logger.warning("could not release the lease, which expires by itself: %s", _describe_error(error))
        else:
            logger.info("%s has released lease %s/%s", self.identity, self._namespace, self._name)

    async def _try(self) -> None:
        """Observe the Lease, and bid if the election says so; failures are logged, and retried by the caller."""
        try:
            # No longer than the rest of the leadership, which ends with or without a response.
            limit_s = min(self._timings.renew_deadline_s / 2, self._left_s())
            async with asyncio.timeout(limit_s):
                await self._observe_or_bid()
        except (ApiError, OSError, TimeoutError) as error:
            self._problem = f"lease {self._namespace}/{self._name}: {_describe_error(error)}"
            logger.warning("cannot read or renew %s", self._problem)
            # Another process wrote, or the response to our write was lost: read before the next bid.
            self._document = None

    async def _observe_or_bid(self) -> None:
        if self._document is None or not self.may_write():
            self._observe(await self._store.get("Lease", self._namespace, self._name))
        record, sent_s = self._election.bid(self._now_s()), self._now_s()
        if record is None:
            return
        lease = self._lease(record, self._document)
        stored = await (self._store.create(lease) if self._document is None else self._store.replace(lease))
        self._document = stored
        self._election.won(_record(stored), sent_s=sent_s, now_s=self._now_s())
        self._observed_s = self._now_s()

    def _observe(self, document: Document | None) -> None:
        self._document = document
        self._observed_s = self._now_s()
        self._election.observe(None if document is None else _record(document), self._now_s())

    def _lease(self, record: LeaseRecord, before: Document | None) -> Document:
        """Return the Lease to write; its times are informational and never read."""
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
        """Return how long the leadership lasts unless it is renewed; infinity without leadership."""
        until_s = self._election.leads_until_s()
        return max(until_s - self._now_s(), 0.0) if until_s is not None else float("inf")

    def _wait_s(self) -> float:
        return self._timings.retry_s * random.uniform(1 - _JITTER, 1)  # noqa: S311

    def _raise_lost(self) -> None:
        reason = f"{self.holder} leads" if self.holder not in ("", self.identity) else self._problem
        raise LeadershipLostError(f"{self.identity} does not lead any more: {reason}")


def _record(document: Document) -> LeaseRecord:
    spec = document.get("spec", {})
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        lease_s=float(spec.get("leaseDurationSeconds") or 1),
        transitions=spec.get("leaseTransitions") or 0,
        version=document["metadata"]["resourceVersion"],
    )


def _describe_error(error: Exception) -> str:
    return str(error) or ("no response in time" if isinstance(error, TimeoutError) else type(error).__name__)
