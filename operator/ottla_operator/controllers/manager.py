"""Reconciles objects of the Kubernetes API by key: read, one pass, one write of the status.

Remembers of each object only what others need to know of it (which cluster a topic or user is in, who else claims it);
everything else is read when it is needed, so that a pass never acts on an old picture.
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
from ottla_operator.model.conditions import Halted, Reached, Refused, Underway, Waiting, ready_condition
from ottla_operator.model.document import KINDS, Document
from ottla_operator.model.manifest import ObjectKey, referred_cluster
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

_OURS = "ottla.dev/"

Asked: TypeAlias = tuple[str, int, str | None, tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, str]]
"""uid, generation, deletion, finalizers, our annotations and claimants of an object: they change when it is asked more.
"""


_UNSETTLED = Waiting | Underway | Halted


class Reconciler(Protocol):
    """Reconciles objects of one kind."""

    async def reconcile(
        self, cluster_key: ObjectKey, documents: Mapping[ObjectKey, Document], /
    ) -> Mapping[ObjectKey, ReconcileResult | Exception | None]:
        """Return the result of each of ``documents``, which are in one cluster; None says that there is none."""


class ControllerManager:
    """One operator's view of its objects: which are dirty, and the reconciler of each kind."""

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
        self._namespaces = namespaces or ("",)
        self._metrics = metrics or OperatorMetrics()
        self._now = now or _utc_now
        self._ownership = ClusterOwnership(name)
        secret_store = secret_store or (lambda namespace: KubernetesSecrets(api, namespace))
        self._statuses = StatusWriter(
            api, self._now, told=lambda document, new: self._metrics.clusters.saw(_key(document), new)
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
        self._asked: dict[ObjectKey, Asked] = {}
        self._done: dict[ObjectKey, list[str]] = {}
        self._refusals: dict[ObjectKey, str] = {}
        """Told last: the status of another operator's Cluster does not say them."""

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
        self._ownership.forget(key)
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
        """Reconcile several objects of one kind and cluster; return those that need not be tried again soon."""
        began_s, kind = time.monotonic(), keys[0].kind
        self._metrics.last_reconcile.labels(kind).set_to_current_time()
        read = await gather_limited({key: self._read(key) for key in keys})
        documents = {key: it for key, it in read.items() if isinstance(it, dict)}
        said = {key: (ready_condition(it) or {}).get("message") for key, it in documents.items()}
        results: dict[ObjectKey, ReconcileResult | Exception | None] = {
            key: it if isinstance(it, Exception) else None for key, it in read.items()
        }
        try:
            for cluster, inside in _by_cluster(documents).items():
                results |= await self._reconcilers[kind].reconcile(cluster, inside)
        except Exception as error:
            if len(keys) > 1:
                # Whichever object it was: reconciled alone, it fails none of the others.
                return {key for key in keys if await self.reconcile(key)}
            results[keys[0]] = error
        self._metrics.duration_s.labels(kind).observe(time.monotonic() - began_s)
        ended = await gather_limited(
            {key: self._end(key, documents.get(key), results[key], said.get(key)) for key in keys}
        )
        return {key for key, is_settled in ended.items() if is_settled is True}

    async def _read(self, key: ObjectKey) -> Document | None:
        """Return the object; None where there is none, or it is another cluster's by now, and waits there."""
        document = await self._api.get(key.kind, key.namespace, key.name)
        if document is None or not self._members.has_moved(key, document):
            return document
        self._remember(key, document)
        self.queue.add(key)
        return None

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

    def _remember(self, key: ObjectKey, document: Document) -> None:
        self._asked[key] = _what_it_asks(document)
        if key.kind != "Cluster":
            self._members.remember(key, document)


def _by_cluster(documents: Mapping[ObjectKey, Document]) -> dict[ObjectKey, dict[ObjectKey, Document]]:
    """Return ``documents`` by their cluster; a Cluster is its own."""
    found: defaultdict[ObjectKey, dict[ObjectKey, Document]] = defaultdict(dict)
    for key, document in documents.items():
        found[key if key.kind == "Cluster" else referred_cluster(document)][key] = document
    return found


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
