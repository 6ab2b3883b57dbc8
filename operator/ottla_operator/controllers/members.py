"""Topics and Users, the members of clusters: who is where, who claims what, and the passes over them.

Passes are made over several members of one cluster at a time: one look at the cluster serves them all. What becomes of
one of them does not depend on the others.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.controllers.listener_access import client_access, operator_access
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusStore, StatusWriter
from ottla_operator.controllers.topic.reconcile import AskedTopic, DeletedTopic, delete_topics, reconcile_topics
from ottla_operator.controllers.user.reconcile import delete_user, reconcile_user
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Reached, Refused, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey, referred_cluster
from ottla_operator.model.topic import TOPIC_FINALIZER, Topic
from ottla_operator.model.user import USER_FINALIZER, User
from ottla_operator.planning.namespace_deletion import ABANDONED, is_overdue, what_stays
from ottla_operator.planning.precedence import heir, older_claim
from ottla_operator.planning.topic.plan import retained
from ottla_operator.planning.user.plan import Draw, never_let_in, reserved
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.ports.host import Host
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.ports.user_admin import UserDescription
from ottla_operator.runtime.concurrency import gather_limited

logger = logging.getLogger(__name__)

Member: TypeAlias = Topic | User
"""What is in a cluster."""

CLUSTER_MISSING = "ClusterMissing"
NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
NAMESPACE_NOT_WATCHED = "NamespaceNotWatched"

_RELEASING = frozenset({CLUSTER_MISSING, NAMESPACE_NOT_ALLOWED, NAMESPACE_NOT_WATCHED})
"""Why nothing can be done in a cluster for an object: one that is deleted need not wait for that."""


def member_of(document: Document) -> Member:
    """Return the Topic or User that ``document`` is."""
    return User.parse(document) if document["kind"] == "User" else Topic.parse(document)


class Members:
    """Every Topic and User as it was seen last, and the passes over them."""

    def __init__(
        self,
        api: StatusStore,
        host: Callable[[str], Host],
        connect: Connect,
        statuses: StatusWriter,
        *,
        namespaces: tuple[str, ...],
        secret_store: Callable[[str], SecretStore],
        draw: Draw,
        now: Callable[[], str],
        is_others: Callable[[Document], bool],
    ) -> None:
        """``is_others`` tells whether another operator looks after a Cluster, and what is in it."""
        self._api = api
        self._host = host
        self._connect = connect
        self._statuses = statuses
        self._namespaces = namespaces
        """Those that are looked after; empty: all."""
        self._secret_store = secret_store
        self._draw = draw
        self._now = now
        self._is_others = is_others
        self._known: dict[ObjectKey, Member] = {}
        self._by_claim: defaultdict[tuple[str, ...], dict[ObjectKey, Member]] = defaultdict(dict)

    # --- who is where

    def remember(self, key: ObjectKey, document: Document) -> None:
        """Keep what others need to know of a Topic or User."""
        self._drop(key)
        member = member_of(document)
        self._known[key] = self._by_claim[member.claim][key] = member

    def forget(self, key: ObjectKey) -> list[ObjectKey]:
        """Forget an object that is gone; return who may have waited for that."""
        if key.kind == "Cluster":
            return self.inside(key)
        gone = self._drop(key)
        return [] if gone is None else list(self._by_claim.get(gone.claim, ()))

    def inside(self, cluster: ObjectKey) -> list[ObjectKey]:
        """Return the objects in a cluster, as far as they were seen."""
        return [key for key, it in self._known.items() if it.cluster == cluster]

    def has_moved(self, key: ObjectKey, document: Document) -> bool:
        """Tell whether a Topic or User that is known is in another cluster by now: deleted and made again."""
        member = self._known.get(key)
        return member is not None and member.cluster != referred_cluster(document)

    def cluster_of(self, key: ObjectKey) -> ObjectKey:
        """Return the cluster that the object is in, or is: objects of one cluster take turns."""
        member = self._known.get(key)
        return ObjectKey("Cluster", key.namespace, key.name) if member is None else member.cluster

    async def users_of(self, cluster: Cluster) -> list[Document]:
        """Return the Users of a cluster, also those that no watch has told of yet."""
        found: list[Document] = []
        for namespace in self._namespaces or ("",):
            found += await self._api.objects("User", namespace)
        return [
            it
            for it in found
            if referred_cluster(it) == cluster.metadata.key and cluster.lets_in(it["metadata"].get("namespace", ""))
        ]

    def _drop(self, key: ObjectKey) -> Member | None:
        member = self._known.pop(key, None)
        if member is not None:
            claimants = self._by_claim[member.claim]
            del claimants[key]
            if not claimants:
                del self._by_claim[member.claim]
        return member

    def _claimants(self, member: Member, cluster: Cluster) -> list[Member]:
        """Return who claims what ``member`` does; an object that is not let in has no claim."""
        return [it for it in self._by_claim.get(member.claim, {}).values() if cluster.lets_in(it.metadata.namespace)]

    # --- passes

    async def passes(self, documents: Sequence[Document]) -> list[ReconcileResult | Exception | None]:
        """Make one pass over each of ``documents``, which are all Topics or all Users.

        An exception in the place of an outcome is about that one only; None there is another operator's.
        """
        outcomes: dict[int, ReconcileResult | Exception | None] = {}
        inside: defaultdict[ObjectKey, list[int]] = defaultdict(list)
        for number, document in enumerate(documents):
            inside[referred_cluster(document)].append(number)
        for key, numbers in inside.items():
            ends = await self._passes_in(key, [documents[number] for number in numbers])
            outcomes.update(zip(numbers, ends, strict=True))
        return [outcomes[number] for number in range(len(documents))]

    async def _passes_in(
        self, key: ObjectKey, documents: Sequence[Document]
    ) -> Sequence[ReconcileResult | Exception | None]:
        """Return what became of each of ``documents``, which refer to the cluster ``key``."""
        try:
            cluster = await self._cluster(key)
        except (ApiError, OSError, TimeoutError) as error:
            # Perhaps it is another operator's, which says how its members are.
            return [error] * len(documents)
        if cluster is None:
            return [None] * len(documents)
        prepared = await gather_limited(self._prepare(document) for document in documents)
        left = [
            (document, it) for document, it in zip(documents, prepared, strict=True) if isinstance(it, Topic | User)
        ]
        found = await self._in_cluster(cluster, left)
        ends = iter(
            await gather_limited(
                self._finish(document, member, outcome) for (document, member), outcome in zip(left, found, strict=True)
            )
        )
        return [it if isinstance(it, ReconcileResult | Exception) else next(ends) for it in prepared]

    async def _prepare(self, document: Document) -> Member | ReconcileResult:
        """Do what needs no cluster; return the end of the pass where nothing else is to be done."""
        member = member_of(document)
        if not member.metadata.is_deleting:
            is_kept = isinstance(member, User) or member.deletes_topic
            if (_finalizer(member) in member.metadata.finalizers) != is_kept:
                await self._set_finalizer(document, member, present=is_kept)
            return member
        if _finalizer(member) not in member.metadata.finalizers:
            return ReconcileResult(Reached("Released", "somebody else's finalizer is waited for"), {})
        if member.is_paused:
            words = "nothing is changed while spec.paused is true, and so what is in the cluster stays"
            return await self._finish(document, member, ReconcileResult(Reached("Released", words), {}))
        reason = never_let_in(member) if isinstance(member, User) else retained(member)
        if reason is None:
            return member
        # A Secret, if there is one, is the object's, and collected with it.
        return await self._finish(document, member, ReconcileResult(reason, {}))

    async def _finish(
        self, document: Document, member: Member, outcome: ReconcileResult | Exception
    ) -> ReconcileResult:
        if isinstance(outcome, Exception):
            raise outcome
        if member.metadata.is_deleting:
            readiness = outcome.readiness
            if isinstance(readiness, Reached) or readiness.reason in _RELEASING:
                await self._set_finalizer(document, member, present=False)
                return ReconcileResult(Reached("Released", "nothing keeps the object"), {}, outcome.done)
            if await self._is_abandoned(document):
                words = what_stays(member, readiness, heir(member, self._by_claim.get(member.claim, {}).values()))
                await self._tell_cluster(member, words)
                await self._set_finalizer(document, member, present=False)
                return ReconcileResult(Reached("Released", words), {}, outcome.done)
        await self._statuses.write(document, outcome)
        return outcome

    async def _is_abandoned(self, document: Document) -> bool:
        """Tell whether a deleted object has waited for its brokers long enough, and its namespace waits for it."""
        if not is_overdue(document["metadata"]["deletionTimestamp"], self._now()):
            return False
        return await self._api.is_namespace_going(document)

    async def _tell_cluster(self, member: Member, words: str) -> None:
        """Log a warning, and make it an event of the Cluster: where the object was, none can be made any more."""
        logger.warning("%s", words)
        try:
            cluster = await self._api.get(*member.cluster)
            if cluster is not None:
                await self._api.record_event(cluster, reason=ABANDONED, note=words, is_warning=True)
        except (ApiError, OSError, TimeoutError) as error:
            logger.warning("%s: could not record an event: %s", member.cluster, error)

    async def _set_finalizer(self, document: Document, member: Member, *, present: bool) -> None:
        own = _finalizer(member)
        others = [name for name in member.metadata.finalizers if name != own]
        stored = await self._api.replace_finalizers(document, [*others, own] if present else others)
        document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        document["metadata"]["finalizers"] = stored["metadata"].get("finalizers", [])

    async def _in_cluster(
        self, cluster: Cluster | ReconcileResult, inside: Sequence[tuple[Document, Member]]
    ) -> Sequence[ReconcileResult | Exception]:
        """Return what a pass over each of the members ``inside`` the cluster finds; where there is none, that."""
        if isinstance(cluster, ReconcileResult):
            return [cluster] * len(inside)
        let_in = [(document, member) for document, member in inside if _not_allowed(member, cluster) is None]
        found = iter(await self._let_in(cluster, let_in) if let_in else ())
        outcomes = [_not_allowed(member, cluster) for _, member in inside]
        return [next(found) if it is None else ReconcileResult(it, {}, is_seen=False) for it in outcomes]

    async def _let_in(
        self, cluster: Cluster, inside: Sequence[tuple[Document, Member]]
    ) -> Sequence[ReconcileResult | Exception]:
        """Return what a pass over each of the members ``inside`` finds, by one connection to the brokers."""
        key = cluster.metadata.key
        address = str(key)
        try:
            access = await operator_access(cluster, self._host(key.namespace))
            if access is None:
                return [
                    ReconcileResult(Waiting("ClusterNotReady", f"{key} has no address yet"), {}, is_seen=False)
                ] * len(inside)
            address = access.bootstrap_servers
            async with self._connect(address, access.properties) as broker:
                if isinstance(inside[0][1], User):
                    return await self._user_passes(inside, broker, cluster)
                return await self._topic_passes(inside, broker, cluster)
        except EXPECTED_ERRORS as error:
            return [
                ReconcileResult(readiness_of_error(error, f"reach the brokers at {address}"), {}, is_seen=False)
            ] * len(inside)

    async def _cluster(self, key: ObjectKey) -> Cluster | ReconcileResult | None:
        """Return the cluster, or the end of a pass where there is none; None where it is another operator's.

        Raises:
            ApiError, OSError, TimeoutError: it could not be read.
        """
        if self._namespaces and key.namespace not in self._namespaces:
            refused = Refused(
                NAMESPACE_NOT_WATCHED,
                f"this operator looks after the namespaces {', '.join(self._namespaces)}, and {key} is elsewhere; add "
                f"{key.namespace} to watchNamespaces of the operator, or refer to a Cluster in one of them",
            )
            return ReconcileResult(refused, {}, is_seen=False)
        document = await self._api.get(*key)
        if document is None or document["metadata"].get("deletionTimestamp"):
            missing = Waiting(CLUSTER_MISSING, f"there is no {key}; make it, or delete this object")
            return ReconcileResult(missing, {}, is_seen=False)
        return None if self._is_others(document) else Cluster.parse(document)

    async def _topic_passes(
        self, inside: Sequence[tuple[Document, Member]], broker: BrokerAdmin, cluster: Cluster
    ) -> Sequence[ReconcileResult | Exception]:
        documents = {member.metadata.key: document for document, member in inside}
        topics = [member for _, member in inside if isinstance(member, Topic)]
        asked, going = [it for it in topics if not it.metadata.is_deleting], []
        for topic in topics:
            if topic.metadata.is_deleting:
                going.append(DeletedTopic(topic, heir(topic, self._claimants(topic, cluster))))

        async def keep(topic: Topic, outcome: ReconcileResult) -> None:
            await self._statuses.write(documents[topic.metadata.key], outcome)

        made = await reconcile_topics(
            [AskedTopic(topic, older_claim(topic, self._claimants(topic, cluster))) for topic in asked],
            broker,
            brokers=cluster.broker_ids,
            keep=keep,
        )
        deleted = await delete_topics(going, broker)
        found = dict(
            zip([it.metadata.key for it in (*asked, *(it.topic for it in going))], [*made, *deleted], strict=True)
        )
        return [found[topic.metadata.key] for topic in topics]

    async def _user_passes(
        self, inside: Sequence[tuple[Document, Member]], broker: BrokerAdmin, cluster: Cluster
    ) -> Sequence[ReconcileResult | Exception]:
        users = [(document, member) for document, member in inside if isinstance(member, User)]
        described = await broker.describe_users({user.name for _, user in users})
        return await gather_limited(
            self._user_pass(document, user, described[user.name], broker, cluster) for document, user in users
        )

    async def _user_pass(
        self, document: Document, user: User, description: UserDescription, broker: BrokerAdmin, cluster: Cluster
    ) -> ReconcileResult:
        claimants, secrets = self._claimants(user, cluster), self._secret_store(user.metadata.namespace)
        if user.metadata.is_deleting:
            return await delete_user(user, broker, secrets, heir=heir(user, claimants), description=description)
        if (refusal := reserved(user, cluster.super_users)) is not None:
            return ReconcileResult(refusal, {}, is_seen=False)
        cluster_secrets = self._secret_store(cluster.metadata.namespace)
        claimed_by = older_claim(user, claimants)
        try:
            access = await client_access(cluster, user.authentication, cluster_secrets)
        except EXPECTED_ERRORS as error:
            return ReconcileResult(readiness_of_error(error, f"find the door of user {user.name}"), {}, is_seen=False)
        if claimed_by is None and user.known_principal is None and not user.is_paused:
            # Before the first step: who is killed after it must know what has to go with the object.
            await self._statuses.keep(document, {"principal": user.principal})
        return await reconcile_user(
            user,
            broker,
            secrets,
            access,
            draw=self._draw,
            now=self._now(),
            cluster=cluster,
            cluster_secrets=cluster_secrets,
            claimed_by=claimed_by,
            description=description,
        )


def _finalizer(member: Member) -> str:
    return USER_FINALIZER if isinstance(member, User) else TOPIC_FINALIZER


def _not_allowed(member: Member, cluster: Cluster) -> Refused | None:
    """Return that objects of the member's namespace may not refer to ``cluster``; None when they may."""
    namespace, key = member.metadata.namespace, cluster.metadata.key
    if cluster.lets_in(namespace):
        return None
    return Refused(
        NAMESPACE_NOT_ALLOWED,
        f"{key} lets in nobody of namespace {namespace}; add {namespace} to spec.allowedNamespaces of Cluster "
        f"{cluster.name} in namespace {key.namespace}",
    )
