"""`ClusterReconciler`: reconciles Clusters of the Kubernetes API."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla_operator.adapters.kubernetes.plan_store import KubernetesPlans
from ottla_operator.controllers.cluster.certificates import CertificateKeeper
from ottla_operator.controllers.cluster.reconcile import initial_status_fields, reconcile_cluster
from ottla_operator.controllers.operation_record import OperationRecorder
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusStore, StatusWriter
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.maintenance import window_state
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.ports.broker_admin import Connect
from ottla_operator.ports.host import Host
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.runtime.cluster_metrics import ClusterMetrics
from ottla_operator.runtime.cluster_ownership import (
    OWNERSHIP_FIELD,
    ClusterOwnership,
    Ownership,
    OwnershipClaim,
    describe_ownership,
)
from ottla_operator.runtime.concurrency import gather_limited
from ottla_operator.runtime.members import MemberIndex

logger = logging.getLogger(__name__)

_OTHER_OPERATOR = "OtherOperator"


class ClusterReconciler:
    """Claims Clusters, reconciles them, and writes their status."""

    def __init__(
        self,
        api: StatusStore,
        host: Callable[[str], Host],
        connect: Connect,
        statuses: StatusWriter,
        index: MemberIndex,
        *,
        ownership: ClusterOwnership,
        users_of: Callable[[Cluster], Awaitable[Iterable[Document]]],
        secret_store: Callable[[str], SecretStore],
        metrics: ClusterMetrics,
        mark_dirty: Callable[[ObjectKey], None],
        now: Callable[[], str],
        now_s: Callable[[], float],
    ) -> None:
        """``users_of`` lists the Users of a Cluster; ``mark_dirty`` is called for its members when it has changed."""
        self._api = api
        self._host = host
        self._connect = connect
        self._statuses = statuses
        self._index = index
        self._ownership = ownership
        self._users_of = users_of
        self._secret_store = secret_store
        self._metrics = metrics
        self._mark_dirty = mark_dirty
        self._now = now
        self._now_s = now_s

    async def reconcile(
        self, _: ObjectKey, documents: Mapping[ObjectKey, Document]
    ) -> Mapping[ObjectKey, ReconcileResult | Exception | None]:
        """Reconcile the Clusters ``documents``; the result of one that is being deleted is None."""
        return await gather_limited({key: self._reconcile(document) for key, document in documents.items()})

    async def _reconcile(self, document: Document) -> ReconcileResult | None:
        cluster = Cluster.parse(document)
        if cluster.metadata.is_deleting:
            # Its objects are garbage-collected; its volumes have no owner, and stay.
            return None
        if (elsewhere := await self._claim(cluster.metadata.key, document)) is not None:
            return elsewhere
        await self._statuses.accept(document)
        host = self._host(cluster.metadata.namespace)
        if cluster.known_cluster_id is None:
            await self._statuses.keep(document, await initial_status_fields(cluster, host))
        keeper = CertificateKeeper(
            secret_store=self._secret_store(cluster.metadata.namespace),
            now=self._now(),
            users=lambda: self._users_of(cluster),
            user_secrets=self._secret_store,
        )
        journal = OperationRecorder(self._now, lambda facts: self._statuses.keep(document, facts))
        outcome = await reconcile_cluster(
            Cluster.parse(document),
            host,
            self._connect,
            journal=journal,
            keeper=keeper,
            windows=window_state(cluster.maintenance_windows, self._now()),
            plans=KubernetesPlans(self._api, cluster.metadata.namespace),
        )
        if await self._statuses.write(document, outcome):
            for member in self._index.members_of(cluster.metadata.key):
                self._mark_dirty(member)
        return outcome

    async def _claim(self, key: ObjectKey, document: Document) -> ReconcileResult | None:
        """Claim a Cluster, or reject a challenge of the claim; return a result if another operator owns the Cluster."""
        found = OwnershipClaim.parse(document)
        ownership, claim = self._ownership.observe_claim(key, found, now_s=self._now_s(), now=self._now())
        if claim != found:
            stored = await self._api.patch_status(document, claim.to_patch())
            document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            kept = stored.get("status", {}).get(OWNERSHIP_FIELD)
            document["status"] = {**document.get("status", {}), **({} if kept is None else {OWNERSHIP_FIELD: kept})}
        if ownership is not Ownership.OURS:
            self._metrics.remove(key)
            message = describe_ownership(key, claim, ownership, self._ownership.name)
            readiness = Waiting if ownership is Ownership.CHALLENGED else Rejected
            return ReconcileResult(readiness(_OTHER_OPERATOR, message), {}, is_seen=False)
        if found.name not in ("", claim.name):
            logger.warning("%s: taken over from %s, which did not reject the challenge", key, found.name)
            for member in self._index.members_of(key):
                self._mark_dirty(member)
        return None
