"""Reconciles objects of the Kubernetes API by key: read, one pass, one write of the status.

Remembers of each object only what others need to know of it (which cluster a topic or user is in, who else claims it);
everything else is read when it is needed, so that a pass never acts on an old picture.
"""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from ottla_operator.clients.broker_admin import BrokerAdmin, Connect
from ottla_operator.errors import ApiError
from ottla_operator.hosts.host import Host
from ottla_operator.hosts.kubernetes_secrets import KubernetesSecrets
from ottla_operator.hosts.object_store import ObjectStore
from ottla_operator.hosts.secret_store import SecretStore
from ottla_operator.metrics import OperatorMetrics
from ottla_operator.model.conditions import Accepted, Reached, Refused, Underway, Waiting, ready_condition
from ottla_operator.model.document import KINDS, Document
from ottla_operator.model.manifest import TOPIC_FINALIZER, Cluster, ObjectKey, Topic
from ottla_operator.model.user import USER_FINALIZER, User
from ottla_operator.reconcile.certificate_pass import CertificateKeeper
from ottla_operator.reconcile.claims import heir, older_claim
from ottla_operator.reconcile.doors import client_access, operator_access
from ottla_operator.reconcile.queue import DirtyKeys
from ottla_operator.reconcile.reconciler import (
    Pass,
    delete_topic,
    founding_facts,
    reconcile_cluster,
    reconcile_topic,
    status,
)
from ottla_operator.reconcile.topic import retained
from ottla_operator.reconcile.user import Draw, never_let_in, reserved
from ottla_operator.reconcile.user_pass import delete_user, reconcile_user
from ottla_operator.reconcile.verdicts import EXPECTED_ERRORS, verdict_of

logger = logging.getLogger(__name__)

_CLUSTER_MISSING = "ClusterMissing"

Member: TypeAlias = Topic | User
"""What is in a cluster."""

Asked: TypeAlias = tuple[str, int, str | None, tuple[str, ...]]
"""uid, generation, deletion and finalizers of an object: what changes when it is asked for something else."""


class StatusStore(ObjectStore, Protocol):
    """The calls of `clients.kubernetes_api.KubernetesApi` that the controller makes besides its hosts."""

    async def apply_status(self, document: Document, status: Document) -> None: ...
    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> None: ...
    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None: ...


class Controller:
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
        secret_store: Callable[[str], SecretStore] | None = None,
        draw: Draw = secrets.randbelow,
    ) -> None:
        self._api = api
        self._host = host
        self._connect = connect
        self._namespaces = namespaces or ("",)
        self._metrics = metrics or OperatorMetrics()
        self._now = now or _utc_now
        self._secret_store = secret_store or (lambda namespace: KubernetesSecrets(api, namespace))
        self._draw = draw
        self._members: dict[ObjectKey, Member] = {}
        self._asked: dict[ObjectKey, Asked] = {}
        self._done: dict[ObjectKey, list[str]] = {}
        self.queue = DirtyKeys(self._cluster_of)

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
        gone = self._members.pop(key, None)
        for other in self._members.values():
            is_rival = gone is not None and other.claim == gone.claim
            is_inside = key.kind == "Cluster" and (other.metadata.namespace, other.cluster) == (key.namespace, key.name)
            if is_rival or is_inside:
                self.queue.add(other.metadata.key)

    def child_seen(self, namespace: str, cluster: str) -> None:
        """Mark a cluster dirty because an object that it owns changed."""
        self.queue.add(ObjectKey("Cluster", namespace, cluster))

    async def resync(self) -> None:
        """Look at every object again, clusters first; forget those that went while no watch was open."""
        unseen = set(self._asked)
        for kind in KINDS:
            for namespace in self._namespaces:
                for document in await self._api.objects(kind, namespace):
                    key = _key(document)
                    unseen.discard(key)
                    self._remember(key, document)
                    self.queue.add(key)
        for key in unseen:
            self._forget(key)

    async def reconcile(self, key: ObjectKey) -> bool:
        """Make one pass over the object ``key``; False when it has to be tried again soon."""
        began_s = time.monotonic()
        self._metrics.last_reconcile.labels(key.kind).set_to_current_time()
        try:
            document = await self._api.get(key.kind, key.namespace, key.name)
            outcome = None if document is None else await self._pass(document)
        except (ApiError, OSError, TimeoutError) as error:
            logger.warning("%s: the API server refused: %s", key, error)
            self._metrics.reconciles.labels(key.kind, "ApiError").inc()
            return False
        except Exception:
            # One object must not stop the others; the traceback is the bug report.
            logger.exception("%s: unexpected error", key)
            self._metrics.reconciles.labels(key.kind, "Bug").inc()
            return False
        if document is None or outcome is None:
            return True
        self._metrics.duration_s.labels(key.kind).observe(time.monotonic() - began_s)
        self._metrics.reconciles.labels(key.kind, type(outcome.verdict).__name__).inc()
        await self._tell(key, document, outcome)
        return not isinstance(outcome.verdict, Waiting | Underway)

    async def _tell(self, key: ObjectKey, document: Document, outcome: Pass) -> None:
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
        ready = ready_condition(document) or {}
        if isinstance(outcome.verdict, Refused) and ready.get("message") != outcome.verdict.message:
            logger.warning("%s: %s: %s", key, outcome.verdict.reason, outcome.verdict.message)
            happened.append((outcome.verdict.reason, outcome.verdict.message, True))
        for reason, note, is_warning in happened:
            try:
                await self._api.record_event(document, reason=reason, note=note, is_warning=is_warning)
            except (ApiError, OSError, TimeoutError) as error:
                logger.warning("%s: could not record an event: %s", key, error)

    async def _pass(self, document: Document) -> Pass | None:
        if document["kind"] == "Cluster":
            return await self._cluster_pass(document)
        member = _member(document)
        if member.metadata.is_deleting:
            return await self._deletion_pass(document, member)
        is_kept = isinstance(member, User) or member.deletes_topic
        if (_finalizer(member) in member.metadata.finalizers) != is_kept:
            await self._set_finalizer(document, member, present=is_kept)
        await self._accept(document)
        outcome = await self._member_pass(document, member)
        await self._write_status(document, outcome)
        return outcome

    async def _cluster_pass(self, document: Document) -> Pass | None:
        cluster = Cluster.parse(document)
        if cluster.metadata.is_deleting:
            # What it owns is collected as garbage; its volumes have no owner, and stay.
            return None
        await self._accept(document)
        host = self._host(cluster.metadata.namespace)
        if cluster.known_cluster_id is None:
            document["status"] = {**document["status"], **await founding_facts(cluster, host)}
            await self._api.apply_status(document, document["status"])
        keeper = CertificateKeeper(
            secret_store=self._secret_store(cluster.metadata.namespace),
            now=self._now(),
            users=lambda: self._users_of(cluster),
        )
        outcome = await reconcile_cluster(Cluster.parse(document), host, self._connect, keeper=keeper)
        if await self._write_status(document, outcome):
            for member in self._inside(cluster):
                self.queue.add(member.metadata.key)
        return outcome

    async def _users_of(self, cluster: Cluster) -> list[Document]:
        """Return the Users of a cluster, also those that no watch has told of yet."""
        found = await self._api.objects("User", cluster.metadata.namespace)
        return [it for it in found if User.parse(it).cluster == cluster.name]

    def _inside(self, cluster: Cluster) -> list[Member]:
        """Return the objects in a cluster, as far as they were seen."""
        where = cluster.metadata.namespace, cluster.name
        return [it for it in self._members.values() if (it.metadata.namespace, it.cluster) == where]

    async def _member_pass(self, document: Document, member: Member) -> Pass:
        claimed_by = older_claim(member, self._members.values())
        if isinstance(member, Topic):
            topic = member
            return await self._with_brokers(
                topic,
                lambda broker, cluster: reconcile_topic(
                    topic, broker, claimed_by=claimed_by, brokers=cluster.broker_ids
                ),
            )
        user, secret_store = member, self._secret_store(member.metadata.namespace)

        async def work(broker: BrokerAdmin, cluster: Cluster) -> Pass:
            if (refusal := reserved(user, cluster.super_users)) is not None:
                return Pass(refusal, {})
            access = await client_access(cluster, user.authentication, secret_store)
            if claimed_by is None and user.known_principal is None:
                # Before the first step: who is killed after it must know what has to go with the object.
                document["status"] = {**document["status"], "principal": user.principal}
                await self._api.apply_status(document, document["status"])
            return await reconcile_user(
                user,
                broker,
                secret_store,
                access,
                draw=self._draw,
                now=self._now(),
                cluster=cluster,
                claimed_by=claimed_by,
            )

        return await self._with_brokers(user, work)

    async def _deletion_pass(self, document: Document, member: Member) -> Pass:
        if _finalizer(member) not in member.metadata.finalizers:
            return Pass(Reached("Released", "somebody else's finalizer is waited for"), {})
        outcome = await (self._delete_user(member) if isinstance(member, User) else self._delete_topic(member))
        is_orphan = isinstance(outcome.verdict, Waiting) and outcome.verdict.reason == _CLUSTER_MISSING
        if is_orphan or isinstance(outcome.verdict, Reached):
            await self._set_finalizer(document, member, present=False)
            return Pass(Reached("Released", "nothing keeps the object"), {}, outcome.done)
        await self._write_status(document, outcome)
        return outcome

    async def _delete_topic(self, topic: Topic) -> Pass:
        if (reason := retained(topic)) is not None:
            return Pass(reason, {})
        return await self._with_brokers(topic, lambda broker, *_: delete_topic(topic, broker))

    async def _delete_user(self, user: User) -> Pass:
        if (reason := never_let_in(user)) is not None:
            # A Secret, if there is one, is the object's, and collected with it.
            return Pass(reason, {})
        secret_store, inherits = self._secret_store(user.metadata.namespace), heir(user, self._members.values())
        return await self._with_brokers(user, lambda broker, *_: delete_user(user, broker, secret_store, heir=inherits))

    async def _with_brokers(self, member: Member, work: Callable[[BrokerAdmin, Cluster], Awaitable[Pass]]) -> Pass:
        namespace, kind = member.metadata.namespace, member.metadata.kind
        document = await self._api.get("Cluster", namespace, member.cluster)
        if document is None or document["metadata"].get("deletionTimestamp"):
            message = f"there is no Cluster {member.cluster} in namespace {namespace}; make it, or delete this {kind}"
            return Pass(Waiting(_CLUSTER_MISSING, message), {})
        cluster, address = Cluster.parse(document), f"Cluster {member.cluster}"
        try:
            access = await operator_access(cluster, self._host(namespace))
            if access is None:
                return Pass(Waiting("ClusterNotReady", f"Cluster {member.cluster} has no address yet"), {})
            address = access.bootstrap_servers
            async with self._connect(address, access.properties) as broker:
                return await work(broker, cluster)
        except EXPECTED_ERRORS as error:
            return Pass(verdict_of(error, f"reach the brokers at {address}"), {})

    async def _set_finalizer(self, document: Document, member: Member, *, present: bool) -> None:
        own = _finalizer(member)
        others = [name for name in member.metadata.finalizers if name != own]
        await self._api.replace_finalizers(document, [*others, own] if present else others)

    async def _accept(self, document: Document) -> None:
        """Give a new object its conditions at once: waiting without any looks like being forgotten."""
        if not document.get("status", {}).get("conditions"):
            document["status"] = status(document, Pass(Accepted(), {}), now=self._now())
            await self._api.apply_status(document, document["status"])

    async def _write_status(self, document: Document, outcome: Pass) -> bool:
        """Write the status that ``outcome`` leads to, unless it is there already; True when it was written."""
        new = status(document, outcome, now=self._now())
        if new == document.get("status"):
            return False
        await self._api.apply_status(document, new)
        return True

    def _remember(self, key: ObjectKey, document: Document) -> None:
        self._asked[key] = _what_it_asks(document)
        if key.kind != "Cluster":
            self._members[key] = _member(document)

    def _cluster_of(self, key: ObjectKey) -> tuple[str, str]:
        member = self._members.get(key)
        return key.namespace, member.cluster if member is not None else key.name


def _key(document: Document) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(document["kind"], metadata.get("namespace", ""), metadata["name"])


def _member(document: Document) -> Member:
    return User.parse(document) if document["kind"] == "User" else Topic.parse(document)


def _finalizer(member: Member) -> str:
    return USER_FINALIZER if isinstance(member, User) else TOPIC_FINALIZER


def _what_it_asks(document: Document) -> Asked:
    metadata = document["metadata"]
    return (
        metadata.get("uid", ""),
        metadata.get("generation", 0),
        metadata.get("deletionTimestamp"),
        tuple(metadata.get("finalizers", ())),
    )


def _utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
