"""One command on one state directory: from manifests to reconciliations and the stored status."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from ottla_operator.adapters.local.host import LocalHost
from ottla_operator.adapters.local.plan_store import LocalPlans
from ottla_operator.adapters.local.secret_store import LocalSecrets
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.controllers.cluster.certificates import CertificateKeeper
from ottla_operator.controllers.cluster.reconcile import initial_status_fields, reconcile_cluster
from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.controllers.listener_access import access_without_manifest, client_access, operator_access
from ottla_operator.controllers.operation_record import OperationRecorder
from ottla_operator.controllers.result import ReconcileResult, status
from ottla_operator.controllers.topic.reconcile import DeletedTopic, DesiredTopic, delete_topics, reconcile_topics
from ottla_operator.controllers.user.reconcile import delete_user, delete_user_secret, reconcile_user
from ottla_operator.errors import ManifestError, Violation
from ottla_operator.local.manifests import desired_by_user, stamped
from ottla_operator.local.outcome import ExitCode, Outcome, outcome_of, planned_outcome
from ottla_operator.model import schema
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import (
    AUTHORITY_CHANGING,
    AUTHORITY_OVERLAP,
    Reached,
    Rejected,
    Underway,
    Waiting,
    is_stalled,
)
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.timestamps import timestamp
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User
from ottla_operator.planning.precedence import heir, older_claim
from ottla_operator.planning.steps.secret import WriteSecret
from ottla_operator.planning.topic.plan import retained
from ottla_operator.planning.user.plan import release_without_brokers
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.ports.operator_access import OperatorAccess

MemberT = TypeVar("MemberT", Topic, User)

_HERE = ObjectKey("Cluster", "", "")
_POLL_S = 0.05
_ROTATION_POLL_S = 1.0
"""Nodes check for new files every three seconds."""


class Session:
    """Applies, refreshes and deletes objects of a state directory."""

    def __init__(
        self,
        directory: StateDirectory,
        host: LocalHost,
        connect: Connect,
        *,
        elsewhere: OperatorAccess | None,
        timeout_s: float,
    ) -> None:
        self._directory = directory
        self._host = host
        self._secrets = LocalSecrets(directory)
        self._connect = connect
        self._elsewhere = elsewhere
        """Access to the brokers for Topics and Users; None: the local cluster's."""
        self._timeout_s = timeout_s

    async def apply(self, document: Document, *, dry_run: bool) -> Outcome:
        """Admit the manifest, store it, and reconcile until it is settled or the time is over."""
        try:
            stored = self._stored(document)
            admitted = stamped(schema.admit(desired_by_user(document), stored), stored, now=_now())
            self._require_only_cluster(admitted)
        except ManifestError as error:
            return _rejected_outcome(document, error)
        if dry_run:
            return planned_outcome(admitted, await self._reconcile(admitted, dry_run=True))
        await self._assign_cluster_id(admitted)
        self._directory.write(admitted)
        result = await self._until_settled(lambda: self._reconcile(admitted))
        admitted["status"] = status(admitted, result, now=_now())
        self._directory.write(admitted)
        is_changed = stored is None or _spec_changed(stored, admitted) or bool(result.done)
        return outcome_of(admitted, result, is_new=stored is None, is_changed=is_changed)

    async def _assign_cluster_id(self, admitted: Document) -> None:
        """Record the id and first voters of a new cluster before its first step."""
        if admitted["kind"] == "Cluster" and not admitted.get("status", {}).get("clusterId"):
            facts = await initial_status_fields(Cluster.parse(admitted), self._host)
            admitted["status"] = {**admitted.get("status", {}), **facts}

    async def refresh(self, document: Document) -> Document:
        """Return ``document`` with the present status, from a dry run."""
        result = await self._reconcile(document, dry_run=True)
        if result.planned and is_stalled(document):
            # Brokers rejected these very steps: the stored status says why, a plan does not.
            return {**document, "status": {**document["status"], **result.facts}}
        if result.planned:
            steps = "; ".join(str(step) for step in result.planned)
            result = replace(result, readiness=Waiting("OutOfSync", f"the next apply will {steps}"))
        return {**document, "status": status(document, result, now=_now())}

    async def delete(self, kind: str, name: str) -> Outcome:
        """Execute the deletionPolicy, then delete the object."""
        document = self._directory.read(kind, name)
        if document is None:
            return Outcome(
                kind=kind,
                name=name,
                action="missing",
                reason="NotFound",
                message=f"there is no {kind.lower()} {name} in {self._directory.path}",
                exit_code=ExitCode.NOT_FOUND,
            )
        result = await self._until_settled(lambda: self._delete(document))
        if not isinstance(result.readiness, Reached):
            return outcome_of(document, result, is_new=False, is_changed=False)
        self._directory.remove(kind, name)
        return Outcome(
            kind=kind,
            name=name,
            action="retained" if result.readiness.reason == "Retained" else "deleted",
            reason=result.readiness.reason,
            message=result.readiness.message,
            steps=tuple(str(step) for step in result.done),
        )

    async def _reconcile(self, document: Document, *, dry_run: bool = False) -> ReconcileResult:
        if document["kind"] == "Cluster":
            return await self._reconcile_cluster(document, dry_run=dry_run)
        if document["kind"] == "User":
            return await self._reconcile_user(document, dry_run=dry_run)
        topic = Topic.parse(document)
        claimed_by = older_claim(_in_local_cluster(topic), self._topics())

        async def keep(_: Topic, outcome: ReconcileResult) -> None:
            document["status"] = status(document, outcome, now=_now())
            self._directory.write(document)

        async def work(broker: BrokerAdmin) -> ReconcileResult:
            desired = [DesiredTopic(topic, claimed_by)]
            results = await reconcile_topics(desired, broker, brokers=self._broker_ids(), dry_run=dry_run, keep=keep)
            return results[topic.metadata.key]

        return await self._with_brokers(work)

    async def _reconcile_cluster(self, document: Document, *, dry_run: bool) -> ReconcileResult:
        keeper = CertificateKeeper(
            secret_store=self._secrets, now=_now(), users=self._user_documents, user_secrets=lambda _: self._secrets
        )
        cluster = Cluster.parse(document)

        async def write(facts: Document) -> None:
            document["status"] = {**document.get("status", {}), **facts}
            self._directory.write(document)

        result = await reconcile_cluster(
            cluster,
            self._host,
            self._connect,
            journal=OperationRecorder(_now, write),
            keeper=keeper,
            plans=LocalPlans(self._directory),
            dry_run=dry_run,
        )
        is_trust_new = any(isinstance(step, WriteSecret) for step in result.done)
        is_settled = isinstance(result.readiness, Reached | Underway)
        if cluster.tls is not None and (is_trust_new or is_settled) and not dry_run:
            # Users connect to the addresses that this reconciliation found.
            document["status"] = status(document, result, now=_now())
            self._directory.write(document)
            # No other process gives Users new trust here, or renews their certificates.
            for user in self._directory.objects("User"):
                outcome = await self._reconcile_user(user, dry_run=False)
                self._directory.write({**user, "status": status(user, outcome, now=_now())})
        return result

    async def _reconcile_user(self, document: Document, *, dry_run: bool) -> ReconcileResult:
        user = User.parse(document)
        claimed_by = older_claim(_in_local_cluster(user), self._users())

        async def keep(facts: Document) -> None:
            document["status"] = {**document.get("status", {}), **facts}
            self._directory.write(document)

        async def work(broker: BrokerAdmin) -> ReconcileResult:
            return await reconcile_user(
                user,
                broker,
                self._secrets,
                lambda: self._client_access(user),
                keep=keep,
                super_users=self._super_users(),
                draw=secrets.randbelow,
                now=_now(),
                cluster=self._known_cluster(),
                cluster_secrets=self._secrets,
                claimed_by=claimed_by,
                dry_run=dry_run,
            )

        return await self._with_brokers(work)

    async def _delete_user(self, user: User) -> ReconcileResult:
        if (reason := release_without_brokers(user)) is not None:
            return await delete_user_secret(user, self._secrets, reason)
        if self._elsewhere is None and self._cluster() is None:
            return await delete_user_secret(user, self._secrets, Reached("Released", "its cluster is gone"))
        inherits = heir(_in_local_cluster(user), self._users())
        return await self._with_brokers(lambda broker: delete_user(user, broker, self._secrets, heir=inherits))

    async def _delete(self, document: Document) -> ReconcileResult:
        if document["kind"] == "User":
            return await self._delete_user(User.parse(document))
        if document["kind"] == "Cluster":
            names = self._directory.node_names()
            await asyncio.gather(*(self._host.stop_node(name) for name in names))
            return ReconcileResult(
                Reached("Stopped", f"its nodes are stopped; their data stays in {self._directory.path}"), {}
            )
        topic = Topic.parse(document)
        if (reason := retained(topic)) is not None:
            return ReconcileResult(reason, {})
        going = DeletedTopic(topic, heir(_in_local_cluster(topic), self._topics()))

        async def delete(broker: BrokerAdmin) -> ReconcileResult:
            return (await delete_topics([going], broker))[topic.metadata.key]

        return await self._with_brokers(delete)

    async def _with_brokers(self, work: Callable[[BrokerAdmin], Awaitable[ReconcileResult]]) -> ReconcileResult:
        address = "the cluster here"
        try:
            access = await self._operator_access()
            if access is None:
                message = "there is no cluster here: start one with `ottla up`, or name one with -b HOST:PORT"
                return ReconcileResult(Rejected("ClusterMissing", message), {})
            address = access.bootstrap_servers
            async with self._connect(address, access.properties) as broker:
                return await work(broker)
        except EXPECTED_ERRORS as error:
            return ReconcileResult(readiness_of_error(error, f"reach the brokers at {address}"), {})

    async def _operator_access(self) -> OperatorAccess | None:
        if self._elsewhere is not None:
            return self._elsewhere
        cluster = self._cluster()
        return None if cluster is None else await operator_access(cluster, self._host)

    async def _client_access(self, user: User) -> ClientAccess | Rejected:
        if self._elsewhere is not None:
            return access_without_manifest(self._elsewhere, user.authentication)
        cluster = self._cluster()
        assert cluster is not None, "its brokers were reached"
        return await client_access(cluster, user.authentication, self._secrets)

    async def _until_settled(self, reconcile: Callable[[], Awaitable[ReconcileResult]]) -> ReconcileResult:
        """Reconcile while waiting may help and there is time; return the last result, with all steps executed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        result = await reconcile()
        done = result.done
        while self._may_yet_settle(result) and loop.time() < deadline:
            await asyncio.sleep(_POLL_S if isinstance(result.readiness, Waiting) else _ROTATION_POLL_S)
            result = await reconcile()
            done += result.done
        return replace(result, done=done)

    def _may_yet_settle(self, result: ReconcileResult) -> bool:
        if isinstance(result.readiness, Waiting):
            return True
        if result.readiness.reason not in (AUTHORITY_CHANGING, AUTHORITY_OVERLAP):
            return isinstance(result.readiness, Underway)
        cluster = self._cluster()
        # If the overlap is longer, a later command continues.
        return cluster is not None and cluster.tls is not None and cluster.tls.overlap_s <= self._timeout_s

    async def _user_documents(self) -> list[Document]:
        return self._directory.objects("User")

    def _topics(self) -> list[Topic]:
        return [_in_local_cluster(Topic.parse(it)) for it in self._directory.objects("Topic")]

    def _users(self) -> list[User]:
        return [_in_local_cluster(User.parse(it)) for it in self._directory.objects("User")]

    def _broker_ids(self) -> tuple[int, ...]:
        """Return the broker ids in the cluster's spec; none if its manifest is elsewhere."""
        cluster = self._known_cluster()
        return () if cluster is None else cluster.broker_ids

    def _super_users(self) -> frozenset[str]:
        """Return the super users of the cluster; none if its manifest is elsewhere."""
        cluster = self._known_cluster()
        return frozenset() if cluster is None else cluster.super_users

    def _known_cluster(self) -> Cluster | None:
        """Return the cluster of Topics and Users; None if its manifest is elsewhere, or there is none."""
        return None if self._elsewhere is not None else self._cluster()

    def _cluster(self) -> Cluster | None:
        """Return the local cluster; None without one."""
        return next(map(Cluster.parse, self._directory.objects("Cluster")), None)

    def _stored(self, document: Document) -> Document | None:
        kind, metadata = document.get("kind"), document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(kind, str) or not schema.is_name(name):
            return None
        return self._directory.read(kind, str(name))

    def _require_only_cluster(self, admitted: Document) -> None:
        if admitted["kind"] != "Cluster":
            return
        name = admitted["metadata"]["name"]
        for other in self._directory.objects("Cluster"):
            if other["metadata"]["name"] != name:
                there = other["metadata"]["name"]
                message = (
                    f"{self._directory.path} already has cluster {there}; use another --dir, or delete that one with: "
                    f"ottla delete cluster {there}"
                )
                raise ManifestError(f"Cluster {name}", (Violation("metadata.name", message),))


def _in_local_cluster(member: MemberT) -> MemberT:
    """Return ``member`` as a member of the only local cluster, whatever name its manifest refers to."""
    return replace(member, cluster=_HERE)


def _spec_changed(stored: Document, admitted: Document) -> bool:
    return bool(stored["metadata"]["generation"] != admitted["metadata"]["generation"])


def _rejected_outcome(document: Document, error: ManifestError) -> Outcome:
    metadata = document.get("metadata")
    return Outcome(
        kind=str(document.get("kind", "")),
        name=str(metadata.get("name", "")) if isinstance(metadata, dict) else "",
        action="refused",
        reason="Invalid",
        message="; ".join(str(violation) for violation in error.violations),
        exit_code=ExitCode.ERROR,
    )


def _now() -> str:
    return timestamp(datetime.now(UTC))
