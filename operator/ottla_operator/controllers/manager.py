"""Reconciles objects of the Kubernetes API by key: read, one pass, one write of the status.

Remembers of each object only what others need to know of it (which cluster a topic or user is in, who else claims it);
everything else is read when it is needed, so that a pass never acts on an old picture.
"""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from ottla_operator.adapters.kubernetes.plan_store import KubernetesPlans
from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.controllers.cluster.certificates import CertificateKeeper
from ottla_operator.controllers.cluster.reconcile import founding_facts, reconcile_cluster
from ottla_operator.controllers.members import Members
from ottla_operator.controllers.operation_record import OperationRecorder
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusStore, StatusWriter
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Halted, Reached, Refused, Underway, Waiting, ready_condition
from ottla_operator.model.document import KINDS, Document
from ottla_operator.model.maintenance import closed
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.planning.user.plan import Draw
from ottla_operator.ports.broker_admin import Connect
from ottla_operator.ports.host import Host
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.runtime.cluster_ownership import (
    OWNERSHIP_FIELD,
    ClusterOwnership,
    Ownership,
    OwnershipClaim,
    describe_ownership,
)
from ottla_operator.runtime.concurrency import gather_limited
from ottla_operator.runtime.metrics import OperatorMetrics
from ottla_operator.runtime.work_queue import WorkQueue

logger = logging.getLogger(__name__)

_OURS = "ottla.dev/"

Asked: TypeAlias = tuple[str, int, str | None, tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, str]]
"""uid, generation, deletion, finalizers, our annotations and claimants of an object: they change when it is asked more.
"""


_OTHER_OPERATOR = "OtherOperator"

_UNSETTLED = Waiting | Underway | Halted


class ControllerManager:
    """One operator's view of its objects, and the passes over them."""

    def __init__(
        self,
        api: StatusStore,
        host: Callable[[str], Host],
        connect: Connect,
        *,
        namespaces: tuple[str, ...] = (),
        metrics: OperatorMetrics | None = None,
        now: Callable[[], str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        secret_store: Callable[[str], SecretStore] | None = None,
        draw: Draw = secrets.randbelow,
        name: str = "",
    ) -> None:
        """``name`` tells this operator from others that may watch the same namespaces; empty: there are none."""
        self._api = api
        self._host = host
        self._connect = connect
        self._namespaces = namespaces or ("",)
        self._metrics = metrics or OperatorMetrics()
        self._now = now or _utc_now
        self._now_s = now_s
        self._claims = ClusterOwnership(name)
        self._secret_store = secret_store or (lambda namespace: KubernetesSecrets(api, namespace))
        self._statuses = StatusWriter(
            api, self._now, told=lambda document, new: self._metrics.clusters.saw(_key(document), new)
        )
        self._members = Members(
            api,
            host,
            connect,
            self._statuses,
            namespaces=namespaces,
            secret_store=self._secret_store,
            draw=draw,
            now=self._now,
            is_others=self._claims.is_others,
        )
        self._asked: dict[ObjectKey, Asked] = {}
        self._done: dict[ObjectKey, list[str]] = {}
        self._refusals: dict[ObjectKey, str] = {}
        """Told last: the status of another operator's Cluster does not say them."""
        self.queue = WorkQueue(self._members.cluster_of)

    def seen(self, document: Document) -> None:
        """Mark an object dirty if what it asks for changed; its status, which we wrote, does not count."""
        key, asked = _key(document), _what_it_asks(document)
        if self._asked.get(key) != asked:
            self._remember(key, document)
            self.queue.add(key)

    def gone(self, document: Document) -> None:
        """Forget a deleted object, and mark dirty who may have waited for that."""
        self._forget(_key(document))

    def _forget(self, key: ObjectKey) -> None:
        self._asked.pop(key, None)
        self._done.pop(key, None)
        self._refusals.pop(key, None)
        self._claims.forget(key)
        self._metrics.clusters.forget(key)
        for other in self._members.forget(key):
            self.queue.add(other)

    def child_seen(self, namespace: str, cluster: str) -> None:
        """Mark a cluster dirty because an object that it owns changed: what it waits for now may come soon."""
        self.queue.progressed(ObjectKey("Cluster", namespace, cluster))
        self.queue.add(ObjectKey("Cluster", namespace, cluster))

    async def resync(self) -> None:
        """Look at every object again, clusters first; forget those that went while no watch was open.

        Raises:
            ApiError: they could not be listed. Where it `is_missing`, a definition is, and nothing of its kind can be
                there; all others were looked at, because some may be about to go.
        """
        unseen, undefined = set(self._asked), None
        for kind in KINDS:
            for namespace in self._namespaces:
                try:
                    documents = await self._api.objects(kind, namespace)
                except ApiError as error:
                    if not error.is_missing:
                        raise
                    documents, undefined = [], error
                for document in documents:
                    key = _key(document)
                    unseen.discard(key)
                    self._remember(key, document)
                    self.queue.add(key)
        for key in unseen:
            self._forget(key)
        if undefined is not None:
            raise undefined

    async def reconcile(self, key: ObjectKey) -> bool:
        """Make one pass over the object ``key``; False when it has to be tried again soon."""
        return key in await self.reconcile_batch([key])

    async def reconcile_batch(self, keys: Sequence[ObjectKey]) -> set[ObjectKey]:
        """Make one pass over several objects of one kind and cluster; return who need not be tried again soon."""
        began_s, kind = time.monotonic(), keys[0].kind
        self._metrics.last_reconcile.labels(kind).set_to_current_time()
        documents = await gather_limited(self._read(key) for key in keys)
        there = {key: it for key, it in zip(keys, documents, strict=True) if isinstance(it, dict)}
        said = {key: (ready_condition(it) or {}).get("message") for key, it in there.items()}
        outcomes: dict[ObjectKey, ReconcileResult | Exception | None] = {
            key: it if isinstance(it, Exception) else None for key, it in zip(keys, documents, strict=True)
        }
        try:
            outcomes |= dict(zip(there, await self._passes(list(there.values())), strict=True))
        except Exception as error:
            if len(keys) > 1:
                # Whoever of them it was: by itself it spoils nothing for the others.
                return {key for key in keys if await self.reconcile(key)}
            outcomes[keys[0]] = error
        self._metrics.duration_s.labels(kind).observe(time.monotonic() - began_s)
        ends = await gather_limited(self._end(key, there.get(key), outcomes[key], said.get(key)) for key in keys)
        return {key for key, is_settled in zip(keys, ends, strict=True) if is_settled is True}

    async def _read(self, key: ObjectKey) -> Document | None:
        """Return the object; None where there is none, or it is another cluster's by now, and waits there."""
        document = await self._api.get(key.kind, key.namespace, key.name)
        if document is None or not self._members.has_moved(key, document):
            return document
        self._remember(key, document)
        self.queue.add(key)
        return None

    async def _passes(self, documents: Sequence[Document]) -> Sequence[ReconcileResult | Exception | None]:
        if documents and documents[0]["kind"] == "Cluster":
            return await gather_limited(self._cluster_pass(document) for document in documents)
        return await self._members.passes(documents)

    async def _end(
        self, key: ObjectKey, document: Document | None, outcome: ReconcileResult | Exception | None, said: str | None
    ) -> bool:
        """Tell what became of an object, unless it was ``said`` before; False when it has to be tried again soon."""
        if isinstance(outcome, ApiError) and outcome.is_conflict:
            logger.info("%s: somebody else changed something meanwhile, and it is looked at again: %s", key, outcome)
            self._metrics.reconciles.labels(key.kind, "Conflict").inc()
            return False
        if isinstance(outcome, ApiError | OSError | TimeoutError):
            logger.warning("%s: the API server refused: %s", key, outcome)
            self._metrics.reconciles.labels(key.kind, "ApiError").inc()
            return False
        if isinstance(outcome, Exception):
            # One object must not stop the others; the traceback is the bug report.
            logger.error("%s: unexpected error", key, exc_info=outcome)
            self._metrics.reconciles.labels(key.kind, "Bug").inc()
            return False
        if document is None or outcome is None:
            return True
        self._metrics.reconciles.labels(key.kind, type(outcome.readiness).__name__).inc()
        self._metrics.passed(key, is_reached=isinstance(outcome.readiness, Reached))
        await self._tell(key, document, outcome, said)
        return not isinstance(outcome.readiness, _UNSETTLED)

    async def _tell(self, key: ObjectKey, document: Document, outcome: ReconcileResult, said: str | None) -> None:
        """Log, count and record as events what was done, and a refusal when it is new."""
        done = [str(step) for step in outcome.done]
        # The same once more is no progress: somebody undoes it, or it has no effect.
        if done and done != self._done.get(key):
            self.queue.progressed(key)
        self._done[key] = done
        for step in outcome.done:
            self._metrics.steps.labels(type(step).__name__).inc()
            logger.info("%s: %s", key, step)
        happened = [(type(step).__name__, str(step), False) for step in outcome.done]
        told = self._refusals.pop(key, None)
        if isinstance(outcome.readiness, Refused):
            refusal = self._refusals[key] = outcome.readiness.message
            if refusal not in (said, told):
                logger.warning("%s: %s: %s", key, outcome.readiness.reason, refusal)
                happened.append((outcome.readiness.reason, refusal, True))
        for reason, note, is_warning in happened:
            try:
                await self._api.record_event(document, reason=reason, note=note, is_warning=is_warning)
            except (ApiError, OSError, TimeoutError) as error:
                logger.warning("%s: could not record an event: %s", key, error)

    async def _cluster_pass(self, document: Document) -> ReconcileResult | None:
        cluster = Cluster.parse(document)
        if cluster.metadata.is_deleting:
            # What it owns is collected as garbage; its volumes have no owner, and stay.
            return None
        if (elsewhere := await self._claim(cluster.metadata.key, document)) is not None:
            return elsewhere
        await self._statuses.accept(document)
        host = self._host(cluster.metadata.namespace)
        if cluster.known_cluster_id is None:
            await self._statuses.keep(document, await founding_facts(cluster, host))
        keeper = CertificateKeeper(
            secret_store=self._secret_store(cluster.metadata.namespace),
            now=self._now(),
            users=lambda: self._members.users_of(cluster),
            user_secrets=self._secret_store,
        )
        journal = OperationRecorder(self._now, lambda facts: self._statuses.keep(document, facts))
        outcome = await reconcile_cluster(
            Cluster.parse(document),
            host,
            self._connect,
            journal=journal,
            keeper=keeper,
            closed=closed(cluster.maintenance_windows, self._now()),
            plans=KubernetesPlans(self._api, cluster.metadata.namespace),
        )
        if await self._statuses.write(document, outcome):
            for member in self._members.inside(cluster.metadata.key):
                self.queue.add(member)
        return outcome

    async def _claim(self, key: ObjectKey, document: Document) -> ReconcileResult | None:
        """Claim a Cluster, or answer for it; return the end of the pass where another operator looks after it."""
        found = OwnershipClaim.of(document)
        ownership, claim = self._claims.observe_claim(key, found, now_s=self._now_s(), now=self._now())
        if claim != found:
            stored = await self._api.patch_status(document, claim.to_patch())
            document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            kept = stored.get("status", {}).get(OWNERSHIP_FIELD)
            document["status"] = {**document.get("status", {}), **({} if kept is None else {OWNERSHIP_FIELD: kept})}
        if ownership is not Ownership.OURS:
            self._metrics.clusters.forget(key)
            words = describe_ownership(key, claim, ownership, self._claims.name)
            readiness = Waiting if ownership is Ownership.ASKED else Refused
            return ReconcileResult(readiness(_OTHER_OPERATOR, words), {}, is_seen=False)
        if found.name not in ("", claim.name):
            logger.warning("%s: taken over from %s, which did not answer", key, found.name)
            for member in self._members.inside(key):
                self.queue.add(member)
        return None

    def _remember(self, key: ObjectKey, document: Document) -> None:
        self._asked[key] = _what_it_asks(document)
        if key.kind != "Cluster":
            self._members.remember(key, document)


def _key(document: Document) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(document["kind"], metadata.get("namespace", ""), metadata["name"])


def _what_it_asks(document: Document) -> Asked:
    metadata, claim = document["metadata"], OwnershipClaim.of(document)
    return (
        metadata.get("uid", ""),
        metadata.get("generation", 0),
        metadata.get("deletionTimestamp"),
        tuple(metadata.get("finalizers", ())),
        tuple(sorted(it for it in (metadata.get("annotations") or {}).items() if it[0].startswith(_OURS))),
        (claim.name, claim.challenger),
    )


def _utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
