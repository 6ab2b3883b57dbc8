"""Base of the reconcilers of Topics and Users: finalizers, the cluster, and one connection to its brokers.

Several members of one cluster are reconciled together: one observation of the cluster serves them all. The result of
one of them does not depend on the others. Results are dictionaries by key.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeAlias, cast

from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.controllers.listener_access import operator_access
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusStore, StatusWriter
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Reached, Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.planning.namespace_deletion import ABANDONED, describe_leftovers, is_overdue
from ottla_operator.planning.precedence import heir
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.ports.host import Host
from ottla_operator.runtime.concurrency import gather_limited
from ottla_operator.runtime.members import Member, MemberIndex, MemberT

logger = logging.getLogger(__name__)

CLUSTER_MISSING = "ClusterMissing"
NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
NAMESPACE_NOT_WATCHED = "NamespaceNotWatched"

_RELEASING = frozenset({CLUSTER_MISSING, NAMESPACE_NOT_ALLOWED, NAMESPACE_NOT_WATCHED})
"""Reasons why nothing can be done in the cluster: a deleted object does not wait for them to end."""

Results: TypeAlias = dict[ObjectKey, ReconcileResult | Exception | None]
"""By object. An exception is about that object only; None: another operator manages its cluster."""


class MemberReconciler(ABC, Generic[MemberT]):
    """Reconciles Topics, or Users."""

    finalizer: ClassVar[str]

    def __init__(
        self,
        api: StatusStore,
        host: Callable[[str], Host],
        connect: Connect,
        statuses: StatusWriter,
        index: MemberIndex,
        *,
        namespaces: tuple[str, ...],
        now: Callable[[], str],
        is_others: Callable[[Document], bool],
    ) -> None:
        """``is_others`` returns whether another operator owns a Cluster and its members."""
        self._api = api
        self._host = host
        self._connect = connect
        self._statuses = statuses
        self._index = index
        self._namespaces = namespaces
        """The watched namespaces; empty: all."""
        self._now = now
        self._is_others = is_others

    @abstractmethod
    def _parse(self, document: Document) -> MemberT: ...

    @abstractmethod
    def _needs_finalizer(self, member: MemberT) -> bool: ...

    @abstractmethod
    def _release_without_cluster(self, member: MemberT) -> Reached | None:
        """Return why a deleted object may be removed without its brokers; None if they are needed."""

    @abstractmethod
    async def _reconcile_members(
        self,
        cluster: Cluster,
        members: Mapping[ObjectKey, MemberT],
        documents: Mapping[ObjectKey, Document],
        broker: BrokerAdmin,
    ) -> Mapping[ObjectKey, ReconcileResult | Exception]:
        """Reconcile ``members``, which the cluster allows, over one connection; ``documents`` are their objects."""

    async def reconcile(self, cluster_key: ObjectKey, documents: Mapping[ObjectKey, Document]) -> Results:
        """Reconcile the objects ``documents``, which refer to one cluster."""
        try:
            cluster = await self._read_cluster(cluster_key)
        except (ApiError, OSError, TimeoutError) as error:
            # Perhaps it is another operator's, which reports the status of its members.
            return dict.fromkeys(documents, error)
        if cluster is None:
            return dict.fromkeys(documents)
        prepared = await gather_limited({key: self._prepare(document) for key, document in documents.items()})
        members = {key: it for key, it in prepared.items() if not isinstance(it, ReconcileResult | Exception)}
        results: dict[ObjectKey, ReconcileResult | Exception] = {
            key: rejection for key, member in members.items() if (rejection := _rejection(member, cluster)) is not None
        }
        allowed = {key: member for key, member in members.items() if key not in results}
        if allowed and isinstance(cluster, Cluster):
            address = str(cluster_key)
            try:
                access = await operator_access(cluster, self._host(cluster_key.namespace))
                if access is None:
                    waiting = Waiting("ClusterNotReady", f"{cluster_key} has no address yet")
                    results |= dict.fromkeys(allowed, ReconcileResult(waiting, {}, is_seen=False))
                else:
                    address = access.bootstrap_servers
                    async with self._connect(address, access.properties) as broker:
                        results |= await self._reconcile_members(cluster, allowed, documents, broker)
            except EXPECTED_ERRORS as error:
                readiness = readiness_of_error(error, f"reach the brokers at {address}")
                results |= dict.fromkeys(allowed, ReconcileResult(readiness, {}, is_seen=False))
        ended = await gather_limited(
            {key: self._finish(documents[key], member, results[key]) for key, member in members.items()}
        )
        return {
            key: ended[key] if key in ended else cast(ReconcileResult | Exception, prepared[key]) for key in documents
        }

    async def _prepare(self, document: Document) -> MemberT | ReconcileResult:
        """Do everything that needs no cluster; return the result if nothing else is to be done."""
        member = self._parse(document)
        if not member.metadata.is_deleting:
            is_kept = self._needs_finalizer(member)
            if (self.finalizer in member.metadata.finalizers) != is_kept:
                await self._set_finalizer(document, member, present=is_kept)
            return member
        if self.finalizer not in member.metadata.finalizers:
            return ReconcileResult(Reached("Released", "waiting for a finalizer of another controller"), {})
        if member.is_paused:
            message = "nothing is changed while spec.paused is true, so everything in the cluster stays"
            return await self._finish(document, member, ReconcileResult(Reached("Released", message), {}))
        reason = self._release_without_cluster(member)
        if reason is None:
            return member
        # The object's Secret, if any, has an owner reference to it, and is garbage-collected.
        return await self._finish(document, member, ReconcileResult(reason, {}))

    async def _finish(
        self, document: Document, member: MemberT, outcome: ReconcileResult | Exception
    ) -> ReconcileResult:
        if isinstance(outcome, Exception):
            raise outcome
        if member.metadata.is_deleting:
            readiness = outcome.readiness
            if isinstance(readiness, Reached) or readiness.reason in _RELEASING:
                await self._set_finalizer(document, member, present=False)
                return ReconcileResult(Reached("Released", "the object may be removed"), {}, outcome.done)
            if await self._is_abandoned(document):
                message = describe_leftovers(member, readiness, heir(member, self._index.claimants(member)))
                await self._record_abandonment(member, message)
                await self._set_finalizer(document, member, present=False)
                return ReconcileResult(Reached("Released", message), {}, outcome.done)
        await self._statuses.write(document, outcome)
        return outcome

    async def _is_abandoned(self, document: Document) -> bool:
        """Tell whether a deleted object has waited long enough for its brokers, and its namespace is being deleted."""
        if not is_overdue(document["metadata"]["deletionTimestamp"], self._now()):
            return False
        return await self._api.is_namespace_terminating(document)

    async def _record_abandonment(self, member: Member, message: str) -> None:
        """Log a warning, and record it as an Event of the Cluster: the object's own namespace accepts none any more."""
        logger.warning("%s", message)
        try:
            cluster = await self._api.get(*member.cluster)
            if cluster is not None:
                await self._api.record_event(cluster, reason=ABANDONED, note=message, is_warning=True)
        except (ApiError, OSError, TimeoutError) as error:
            logger.warning("%s: could not record an event: %s", member.cluster, error)

    async def _set_finalizer(self, document: Document, member: Member, *, present: bool) -> None:
        own = self.finalizer
        others: list[str] = [name for name in member.metadata.finalizers if name != own]
        stored = await self._api.replace_finalizers(document, [*others, own] if present else others)
        document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        document["metadata"]["finalizers"] = stored["metadata"].get("finalizers", [])

    async def _read_cluster(self, key: ObjectKey) -> Cluster | ReconcileResult | None:
        """Return the cluster, or a result if it is missing; None if another operator owns it.

        Raises:
            ApiError, OSError, TimeoutError: it could not be read.
        """
        if self._namespaces and key.namespace not in self._namespaces:
            rejected = Rejected(
                NAMESPACE_NOT_WATCHED,
                f"this operator watches the namespaces {', '.join(self._namespaces)}, and {key} is elsewhere; add "
                f"{key.namespace} to watchNamespaces of the operator, or refer to a Cluster in one of them",
            )
            return ReconcileResult(rejected, {}, is_seen=False)
        document = await self._api.get(*key)
        if document is None or document["metadata"].get("deletionTimestamp"):
            missing = Waiting(CLUSTER_MISSING, f"there is no {key}; create it, or delete this object")
            return ReconcileResult(missing, {}, is_seen=False)
        return None if self._is_others(document) else Cluster.parse(document)


def _rejection(member: Member, cluster: Cluster | ReconcileResult) -> ReconcileResult | None:
    """Return a result if the cluster is missing, or does not allow the member's namespace; None otherwise."""
    if isinstance(cluster, ReconcileResult):
        return cluster
    rejected = _not_allowed(member, cluster)
    return None if rejected is None else ReconcileResult(rejected, {}, is_seen=False)


def _not_allowed(member: Member, cluster: Cluster) -> Rejected | None:
    """Return that objects of the member's namespace may not refer to ``cluster``; None if they may."""
    namespace, key = member.metadata.namespace, cluster.metadata.key
    if cluster.admits_namespace(namespace):
        return None
    return Rejected(
        NAMESPACE_NOT_ALLOWED,
        f"{key} does not admit namespace {namespace}; add {namespace} to spec.allowedNamespaces of Cluster "
        f"{cluster.name} in namespace {key.namespace}",
    )
