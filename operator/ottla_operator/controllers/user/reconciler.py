"""`UserReconciler`: reconciles Users of the Kubernetes API."""

from collections.abc import Callable, Mapping
from functools import partial

from ottla_operator.controllers.listener_access import client_access
from ottla_operator.controllers.members import MemberReconciler
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusStore, StatusWriter
from ottla_operator.controllers.user.reconcile import delete_user, reconcile_user
from ottla_operator.model.conditions import Reached
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey, referred_cluster
from ottla_operator.model.user import USER_FINALIZER, User
from ottla_operator.planning.precedence import heir, older_claim
from ottla_operator.planning.user.plan import Draw, release_without_brokers
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.ports.host import Host
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.runtime.concurrency import gather_limited
from ottla_operator.runtime.members import MemberIndex


class UserReconciler(MemberReconciler[User]):
    """Reconciles Users of one cluster, in batches."""

    finalizer = USER_FINALIZER

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
        secret_store: Callable[[str], SecretStore],
        draw: Draw,
    ) -> None:
        """``draw`` is the randomness of new passwords."""
        super().__init__(api, host, connect, statuses, index, namespaces=namespaces, now=now, is_others=is_others)
        self._secret_store = secret_store
        self._draw = draw

    async def users_of(self, cluster: Cluster) -> list[Document]:
        """Return the Users of a cluster, also those that no watch has reported yet."""
        found: list[Document] = []
        for namespace in self._namespaces or ("",):
            found += await self._api.objects("User", namespace)
        return [
            it
            for it in found
            if referred_cluster(it) == cluster.metadata.key
            and cluster.admits_namespace(it["metadata"].get("namespace", ""))
        ]

    def _parse(self, document: Document) -> User:
        return User.parse(document)

    def _needs_finalizer(self, member: User) -> bool:
        return True

    def _release_without_cluster(self, member: User) -> Reached | None:
        return release_without_brokers(member)

    async def _reconcile_members(
        self,
        cluster: Cluster,
        members: Mapping[ObjectKey, User],
        documents: Mapping[ObjectKey, Document],
        broker: BrokerAdmin,
    ) -> Mapping[ObjectKey, ReconcileResult | Exception]:
        described = await broker.describe_users({user.name for user in members.values()})
        cluster_secrets = self._secret_store(cluster.metadata.namespace)
        claimants = {key: self._index.allowed_claimants(user, cluster) for key, user in members.items()}
        heirs = {key: heir(user, claimants[key]) for key, user in members.items()}
        older = {key: older_claim(user, claimants[key]) for key, user in members.items()}
        now, calls = self._now(), {}
        for key, user in members.items():
            secrets, description = self._secret_store(key.namespace), described[user.name]
            if user.metadata.is_deleting:
                calls[key] = delete_user(user, broker, secrets, heir=heirs[key], description=description)
                continue
            calls[key] = reconcile_user(
                user,
                broker,
                secrets,
                partial(client_access, cluster, user.authentication, cluster_secrets),
                keep=partial(self._statuses.keep, documents[key]),
                super_users=cluster.super_users,
                draw=self._draw,
                now=now,
                cluster=cluster,
                cluster_secrets=cluster_secrets,
                claimed_by=older[key],
                description=description,
            )
        return await gather_limited(calls)
