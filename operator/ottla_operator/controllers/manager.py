"""Reconciles objects of the Kubernetes API by key: read, reconcile, write the status once.

Keeps of each object only facts that others need (the cluster of a topic or user, and its claim); everything else is
read when it is reconciled, so that no decision is based on an old state.
"""

import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.controllers.cluster.reconciler import ClusterReconciler
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusStore, StatusWriter
from ottla_operator.controllers.topic.reconciler import TopicReconciler
from ottla_operator.controllers.user.reconciler import UserReconciler
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Halted, Reached, Readiness, Rejected, Underway, Waiting, ready_condition
from ottla_operator.model.document import KINDS, Document
from ottla_operator.model.manifest import ObjectKey, referred_cluster
from ottla_operator.model.timestamps import instant, timestamp
from ottla_operator.planning.steps.certificate import LeaveUsersBehind
from ottla_operator.planning.user.plan import Draw
from ottla_operator.ports.broker_admin import Connect
from ottla_operator.ports.host import Host
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.runtime.cluster_ownership import ClusterOwnership, OwnershipClaim
from ottla_operator.runtime.concurrency import gather_limited
from ottla_operator.runtime.members import MemberIndex
from ottla_operator.runtime.metrics import OperatorMetrics
from ottla_operator.runtime.work_queue import WorkQueue

logger = logging.getLogger(__name__)

_WARNINGS = (LeaveUsersBehind,)
"""Steps with an impact on clients, which are warnings in the log and as Events."""
_REJECTED_LABEL = "Refused"
"""Label value of the metric, which dashboards know."""

Fingerprint: TypeAlias = tuple[str, int, str | None, tuple[str, ...], int, tuple[str, str]]
"""uid, generation, deletion, finalizers, hash of annotations, and claim of an object: if they are unchanged, there is
nothing new to do. A change of any annotation asks for a reconciliation."""


_UNSETTLED = Waiting | Underway | Halted


class Reconciler(Protocol):
    """Reconciles objects of one kind."""

    async def reconcile(
        self, cluster_key: ObjectKey, documents: Mapping[ObjectKey, Document], /
    ) -> Mapping[ObjectKey, ReconcileResult | Exception | None]:
        """Return the result of each of ``documents``, which are in one cluster; None: nothing to report."""


class ControllerManager:
    """The objects of one operator: which are dirty, and the reconciler of each kind."""

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
        """``name`` identifies this operator among others that may watch the same namespaces; empty: there are none."""
        self._api = api
        self._namespaces = namespaces or ("",)
        self._metrics = metrics or OperatorMetrics()
        self._now = now or _utc_now
        self._ownership = ClusterOwnership(name)
        secret_store = secret_store or (lambda namespace: KubernetesSecrets(api, namespace))
        self._statuses = StatusWriter(
            api, self._now, on_status=lambda document, new: self._metrics.clusters.observe_status(_key(document), new)
        )
        self._members = MemberIndex()
        self.queue = WorkQueue(self._members.cluster_of)
        self._users = UserReconciler(
            *(api, host, connect, self._statuses, self._members),
            namespaces=namespaces,
            now=self._now,
            is_others=self._ownership.is_others,
            secret_store=secret_store,
            draw=draw,
        )
        topics = TopicReconciler(
            *(api, host, connect, self._statuses, self._members),
            namespaces=namespaces,
            now=self._now,
            is_others=self._ownership.is_others,
        )
        clusters = ClusterReconciler(
            *(api, host, connect, self._statuses, self._members),
            ownership=self._ownership,
            users_of=self._users.users_of,
            secret_store=secret_store,
            metrics=self._metrics.clusters,
            mark_dirty=self.queue.add,
            now=self._now,
            now_s=now_s,
        )
        self._reconcilers: Mapping[str, Reconciler] = {"Cluster": clusters, "Topic": topics, "User": self._users}
        self._fingerprints: dict[ObjectKey, Fingerprint] = {}
        self._listed: dict[ObjectKey, Document] = {}
        """Topics and Users of a resync that wait for their reconciliation, which need not be read once more."""
        self._done: dict[ObjectKey, list[str]] = {}
        self._rejections: dict[ObjectKey, str] = {}
        """Last reported messages: the status of another operator's Cluster does not hold them."""

    def seen(self, document: Document) -> None:
        """Mark an object dirty if its spec or metadata changed; its status, which the operator writes, is ignored."""
        key = _key(document)
        if self._fingerprints.get(key) != _fingerprint(document):
            self._listed.pop(key, None)
            self._index(key, document)
            self.queue.add(key)

    def gone(self, document: Document) -> None:
        """Remove a deleted object, and mark those dirty that may have waited for the deletion."""
        self._remove(_key(document))

    def _remove(self, key: ObjectKey) -> None:
        self._fingerprints.pop(key, None)
        self._listed.pop(key, None)
        self._done.pop(key, None)
        self._rejections.pop(key, None)
        self._ownership.remove(key)
        self._metrics.clusters.remove(key)
        for other in self._members.remove(key):
            self.queue.add(other)

    def child_seen(self, namespace: str, cluster: str) -> None:
        """Mark a cluster dirty because one of its objects changed: its wait may be over soon."""
        self.queue.progressed(ObjectKey("Cluster", namespace, cluster))
        self.queue.add(ObjectKey("Cluster", namespace, cluster))

    async def resync(self) -> None:
        """Mark every object dirty, clusters first; remove those that were deleted while no watch was open.

        Raises:
            ApiError: a listing failed. If it `is_missing`, a CRD is not installed, so there are no objects of its kind;
                all others were marked, because some may be waiting for their deletion.
        """
        unseen, undefined = set(self._fingerprints), None
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
                    self._index(key, document)
                    if kind != "Cluster":
                        self._listed[key] = document
                    self.queue.add(key)
        for key in unseen:
            self._remove(key)
        if undefined is not None:
            raise undefined

    async def reconcile(self, key: ObjectKey) -> bool:
        """Reconcile the object ``key``; False if it has to be retried soon."""
        return key in await self.reconcile_batch([key])

    async def reconcile_batch(self, keys: Sequence[ObjectKey]) -> set[ObjectKey]:
        """Reconcile several objects of one kind and cluster; return those that need no retry."""
        started_s, kind = time.monotonic(), keys[0].kind
        self._metrics.last_reconcile.labels(kind).set_to_current_time()
        read = await gather_limited({key: self._read(key) for key in keys})
        documents = {key: it for key, it in read.items() if isinstance(it, dict)}
        previous = {key: (ready_condition(it) or {}).get("message") for key, it in documents.items()}
        results: dict[ObjectKey, ReconcileResult | Exception | None] = {
            key: it if isinstance(it, Exception) else None for key, it in read.items()
        }
        try:
            for cluster, inside in _by_cluster(documents).items():
                results |= await self._reconcilers[kind].reconcile(cluster, inside)
        except Exception as error:
            if len(keys) > 1:
                # Reconcile each alone, so that one that raises does not fail the others.
                return {key for key in keys if await self.reconcile(key)}
            results[keys[0]] = error
        self._metrics.duration_s.labels(kind).observe(time.monotonic() - started_s)
        ended = await gather_limited(
            {key: self._finish(key, documents.get(key), results[key], previous.get(key)) for key in keys}
        )
        for key in keys:
            # Listed while this reconciliation may have written to it.
            self._listed.pop(key, None)
        return {key for key, is_settled in ended.items() if is_settled is True}

    async def _read(self, key: ObjectKey) -> Document | None:
        """Return the object; None without one, or if it moved to another cluster, and is queued for that."""
        document = self._listed.pop(key, None) or await self._api.get(key.kind, key.namespace, key.name)
        if document is None or not self._members.has_moved(key, document):
            return document
        self._index(key, document)
        self.queue.add(key)
        return None

    async def _finish(
        self,
        key: ObjectKey,
        document: Document | None,
        outcome: ReconcileResult | Exception | None,
        previous: str | None,
    ) -> bool:
        """Report the result of an object, unless ``previous`` is its message; return False if a retry is due soon."""
        if isinstance(outcome, ApiError) and outcome.is_conflict:
            logger.info("%s: the object was changed by another client, and is reconciled again: %s", key, outcome)
            self._metrics.reconciles.labels(key.kind, "Conflict").inc()
            return False
        if isinstance(outcome, ApiError | OSError | TimeoutError):
            logger.warning("%s: request to the API server failed: %s", key, outcome)
            self._metrics.reconciles.labels(key.kind, "ApiError").inc()
            return False
        if isinstance(outcome, Exception):
            # One object must not stop the others; the traceback is the bug report.
            logger.error("%s: unexpected error", key, exc_info=outcome)
            self._metrics.reconciles.labels(key.kind, "Bug").inc()
            return False
        if document is None or outcome is None:
            return True
        self._metrics.reconciles.labels(key.kind, _result_label(outcome.readiness)).inc()
        self._metrics.observe_reconcile(key, is_reached=isinstance(outcome.readiness, Reached))
        await self._report(key, document, outcome, previous)
        self._schedule(key, outcome)
        return not isinstance(outcome.readiness, _UNSETTLED)

    def _schedule(self, key: ObjectKey, outcome: ReconcileResult) -> None:
        """Have the object reconciled again when the result may be another one."""
        delays_s = []
        if outcome.wake_at:
            delays_s.append(max(0.0, (instant(outcome.wake_at) - instant(self._now())).total_seconds()))
        if isinstance(outcome.readiness, Rejected):
            # The cause may be in the world: a Secret, a quota, a right, the brokers.
            delays_s.append(self.queue.interval_s())
        if delays_s:
            self.queue.wake_in(key, min(delays_s))

    async def _report(self, key: ObjectKey, document: Document, outcome: ReconcileResult, previous: str | None) -> None:
        """Log, count and record the executed steps as Events, and a rejection if it is new."""
        done = [str(step) for step in outcome.done]
        # The same steps again are no progress: another client reverts them, or they have no effect.
        if done and done != self._done.get(key):
            self.queue.progressed(key)
            if key.kind != "Cluster":
                self._wake_cluster(referred_cluster(document))
        self._done[key] = done
        for step in outcome.done:
            self._metrics.steps.labels(type(step).__name__).inc()
            logger.log(logging.WARNING if isinstance(step, _WARNINGS) else logging.INFO, "%s: %s", key, step)
        happened = [(type(step).__name__, str(step), isinstance(step, _WARNINGS)) for step in outcome.done]
        reported = self._rejections.pop(key, None)
        if isinstance(outcome.readiness, Rejected):
            message = self._rejections[key] = outcome.readiness.message
            if message not in (previous, reported):
                logger.warning("%s: %s: %s", key, outcome.readiness.reason, message)
                happened.append((outcome.readiness.reason, message, True))
        for reason, note, is_warning in happened:
            try:
                await self._api.record_event(document, reason=reason, note=note, is_warning=is_warning)
            except (ApiError, OSError, TimeoutError) as error:
                logger.warning("%s: could not record an event: %s", key, error)

    def _wake_cluster(self, cluster: ObjectKey) -> None:
        """Reconcile a Cluster that waits or is rejected: what one of its Topics or Users changed may be the cause."""
        if cluster in self._rejections:
            self.queue.add(cluster)
        else:
            self.queue.retry_now(cluster)

    def _index(self, key: ObjectKey, document: Document) -> None:
        self._fingerprints[key] = _fingerprint(document)
        if key.kind != "Cluster":
            self._members.add(key, document)


def _by_cluster(documents: Mapping[ObjectKey, Document]) -> dict[ObjectKey, dict[ObjectKey, Document]]:
    """Return ``documents`` by cluster; a Cluster is its own."""
    found: defaultdict[ObjectKey, dict[ObjectKey, Document]] = defaultdict(dict)
    for key, document in documents.items():
        found[key if key.kind == "Cluster" else referred_cluster(document)][key] = document
    return found


def _key(document: Document) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(document["kind"], metadata.get("namespace", ""), metadata["name"])


def _fingerprint(document: Document) -> Fingerprint:
    metadata, claim = document["metadata"], OwnershipClaim.parse(document)
    return (
        metadata.get("uid", ""),
        metadata.get("generation", 0),
        metadata.get("deletionTimestamp"),
        tuple(metadata.get("finalizers", ())),
        hash(frozenset((metadata.get("annotations") or {}).items())),
        (claim.name, claim.challenger),
    )


def _result_label(readiness: Readiness) -> str:
    """Return the label value of a result in the metric; that of `Rejected` is older than the name of its class."""
    return _REJECTED_LABEL if isinstance(readiness, Rejected) else type(readiness).__name__


def _utc_now() -> str:
    return timestamp(datetime.now(UTC))
