"""Interception of every change of the operator: it is counted, checked, and may be the operator's last.

`WatchedHost`, `WatchedBrokers` and `WatchedSecrets` are the planner's ports with that in between.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from operator_simulation.host import node_id_of
from operator_simulation.host_wrapper import HostWrapper
from ottla.client.admin_security import ScramSecret
from ottla.errors import KafkaError
from ottla.types import Endpoint, NodeId, TopicPartition
from ottla.wire.acl_codes import Acl
from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.manifest import Cluster, Metadata
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.secret import Secret
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect, NewTopic, TopicDescription
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.host import Host
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.ports.user_admin import UserDescription
from ottla_operator.ports.volume_claims import ObservedClaim


class Kind(Enum):
    """Kinds of steps."""

    PUBLISH = "publish"
    START = "start"
    RESTART = "restart"
    STOP = "stop"
    VOLUMES = "remove volumes of"
    REASSIGN = "reassign"
    CONFIGURE = "configure broker"
    ELECT = "elect"
    UNREGISTER = "unregister"
    ADD_VOTER = "add voter"
    REMOVE_VOTER = "remove voter"
    CONFIGS = "configs"
    FEATURES = "features"
    TOPIC = "topic"
    USER = "user"
    SECRET = "secret"  # a kind of step


class StepTaken(NamedTuple):
    """One change; ``node_id`` is -1 where it is not about one node."""

    kind: Kind
    node_id: NodeId
    what: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.what}"


class StepTaker(Protocol):
    """Receives the steps of an operator."""

    async def take(self, step: StepTaken, call: Callable[[], Awaitable[None]]) -> None: ...


class Moment(Enum):
    """When, relative to a step, the operator is killed."""

    BEFORE = "before"
    DURING = "during"
    """Its first part is done, or in progress."""
    AFTER = "after"


class Steps:
    """The steps of all operators of a run.

    Attributes:
        taken: in order, including those that a kill prevented.
        kill_at: the step, by its place in ``taken``, and the moment relative to it at which the operator is killed.
        on_step: called before each step.
        kill: ends the operator, as soon as it yields.
    """

    DURING_MS = 3

    def __init__(self, later: Callable[[int, Callable[[], object]], object]) -> None:
        self.taken: list[StepTaken] = []
        self.kill_at: tuple[int, Moment] | None = None
        self.on_step: Callable[[StepTaken], object] = lambda _: None
        self.kill: Callable[[], object] = lambda: None
        self._later = later

    async def take(self, step: StepTaken, call: Callable[[], Awaitable[None]]) -> None:
        number = len(self.taken)
        self.taken.append(step)
        if self._dies_at(number, Moment.BEFORE):
            await self._die()
        self.on_step(step)
        if self._dies_at(number, Moment.DURING):
            self._later(self.DURING_MS, self.kill)
        try:
            await call()
        finally:  # a step that failed has an end as well
            if self._dies_at(number, Moment.AFTER):
                await self._die()

    def _dies_at(self, number: int, moment: Moment) -> bool:
        if self.kill_at != (number, moment):
            return False
        self.kill_at = None
        return True

    async def _die(self) -> None:
        self._later(0, self.kill)
        await asyncio.Event().wait()


class StepsOfAnother:
    """The steps of another installation of the operator; ``on_step`` receives each of them first."""

    def __init__(self, steps: Steps, on_step: Callable[[StepTaken], object]) -> None:
        self._steps = steps
        self._on_step = on_step

    async def take(self, step: StepTaken, call: Callable[[], Awaitable[None]]) -> None:
        self._on_step(step)
        await self._steps.take(step, call)


class WatchedHost(HostWrapper):
    """A `Host` whose changes are steps."""

    def __init__(self, host: Host, steps: StepTaker) -> None:
        super().__init__(host)
        self._steps = steps
        self._cluster: Cluster | None = None

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        self._cluster = cluster
        return await super().desired(cluster, leaving)

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        step = StepTaken(Kind.PUBLISH, -1, ", ".join(outdated))
        await self._steps.take(step, lambda: self._host.publish(desired, outdated))

    async def start_node(self, node: DesiredNode) -> None:
        await self._steps.take(StepTaken(Kind.START, node.node_id, node.name), lambda: self._host.start_node(node))

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        step = StepTaken(Kind.RESTART, node.node_id, node.name)
        await self._steps.take(step, lambda: self._host.restart_node(node, uid))

    async def remove_node(self, name: str, uid: str) -> None:
        assert self._cluster is not None, "what is stopped was seen before"
        step = StepTaken(Kind.STOP, node_id_of(self._cluster, name), name)
        await self._steps.take(step, lambda: self._host.remove_node(name, uid))

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        for claim in claims:
            assert self._cluster is not None, "what is removed was seen before"
            step = StepTaken(Kind.VOLUMES, node_id_of(self._cluster, claim.node), claim.node)
            await self._steps.take(step, partial(self._host.remove_volumes, [claim]))


class WatchedSecrets:
    """A `SecretStore` whose changes are steps."""

    def __init__(self, secrets: SecretStore, steps: StepTaker) -> None:
        self._secrets = secrets
        self._steps = steps

    async def read(self, name: str) -> Secret | None:
        return await self._secrets.read(name)

    async def write(self, secret: Secret, owner: Metadata) -> None:
        step = StepTaken(Kind.SECRET, -1, f"{secret.name}: write")
        await self._steps.take(step, lambda: self._secrets.write(secret, owner))

    async def delete(self, name: str) -> None:
        await self._steps.take(StepTaken(Kind.SECRET, -1, f"{name}: delete"), lambda: self._secrets.delete(name))

    async def read_entry(self, name: str, key: str) -> str | None:
        return await self._secrets.read_entry(name, key)

    async def has_certificate_order(self, order: CertificateOrder) -> bool:
        return await self._secrets.has_certificate_order(order)

    async def order_certificate(self, order: CertificateOrder, owner: Metadata) -> None:
        await self._secrets.order_certificate(order, owner)

    async def withdraw_certificate(self, name: str, owner: Metadata) -> None:
        await self._secrets.withdraw_certificate(name, owner)

    def location(self, name: str) -> str:
        return self._secrets.location(name)


class WatchedBrokers:
    """A `BrokerAdmin` whose changes are steps."""

    def __init__(self, brokers: BrokerAdmin, steps: StepTaker) -> None:
        self._brokers = brokers
        self._steps = steps

    async def observe(
        self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False, with_settings: bool = False
    ) -> ClusterView:
        return await self._brokers.observe(topics=topics, with_min_isr=with_min_isr, with_settings=with_settings)

    async def advertised_listeners(self, node_id: int) -> str:
        return await self._brokers.advertised_listeners(node_id)

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        return await self._brokers.describe_topics(names)

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return await self._brokers.describe_topic_configs(names)

    async def describe_own_configs(self, node_ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        return await self._brokers.describe_own_configs(node_ids)

    async def describe_sizes(self) -> Mapping[TopicPartition, int]:
        return await self._brokers.describe_sizes()

    async def alter_own_configs(self, node_id: int, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        await self._take(
            Kind.CONFIGURE,
            f"{node_id}: set {dict(upserts)}, unset {list(deletions)}",
            lambda: self._brokers.alter_own_configs(node_id, upserts=upserts, deletions=deletions),
            node_id,
        )

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        what = "; ".join(f"{partition} to {list(nodes)}" for partition, nodes in targets.items())
        await self._take(Kind.REASSIGN, what, lambda: self._brokers.reassign_partitions(targets))

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        what = ", ".join(map(str, partitions))
        await self._take(Kind.ELECT, what, lambda: self._brokers.elect_preferred_leaders(partitions))

    async def unregister_broker(self, node_id: int) -> None:
        await self._take(Kind.UNREGISTER, str(node_id), lambda: self._brokers.unregister_broker(node_id), node_id)

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        await self._take(
            Kind.ADD_VOTER, str(node_id), lambda: self._brokers.add_voter(node_id, directory_id, endpoint), node_id
        )

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        await self._take(
            Kind.REMOVE_VOTER, str(node_id), lambda: self._brokers.remove_voter(node_id, directory_id), node_id
        )

    async def alter_broker_configs(self, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        await self._take(
            Kind.CONFIGS,
            ", ".join([*upserts, *deletions]),
            lambda: self._brokers.alter_broker_configs(upserts=upserts, deletions=deletions),
        )

    async def update_features(self, levels: Mapping[str, int], *, is_down: bool) -> None:
        what = ", ".join(f"{name}={level}" for name, level in levels.items())
        await self._take(Kind.FEATURES, what, lambda: self._brokers.update_features(levels, is_down=is_down))

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        rejected: dict[str, KafkaError] = {}

        async def create() -> None:
            rejected.update(await self._brokers.create_topics(topics))

        await self._take(Kind.TOPIC, f"{', '.join(topic.name for topic in topics)}: create", create)
        return rejected

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None:
        await self._take(
            Kind.TOPIC,
            f"{name}: {total} partitions",
            lambda: self._brokers.create_partitions(name, total=total, validate_only=validate_only),
        )

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        await self._take(
            Kind.TOPIC,
            f"{name}: set {dict(upserts)}, unset {list(deletions)}",
            lambda: self._brokers.alter_topic_configs(
                name, upserts=upserts, deletions=deletions, validate_only=validate_only
            ),
        )

    async def delete_topic(self, name: str) -> None:
        await self._take(Kind.TOPIC, f"{name}: delete", lambda: self._brokers.delete_topic(name))

    async def describe_users(self, names: Collection[str]) -> Mapping[str, UserDescription]:
        return await self._brokers.describe_users(names)

    async def alter_scram(self, name: str, *, upserts: Sequence[ScramSecret], deletions: Sequence[int]) -> None:
        await self._take(
            Kind.USER,
            f"{name}: {len(upserts)} passwords set, {len(deletions)} removed",
            lambda: self._brokers.alter_scram(name, upserts=upserts, deletions=deletions),
        )

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        await self._take(Kind.USER, f"add {', '.join(map(str, acls))}", lambda: self._brokers.create_acls(acls))

    async def delete_acls(self, acls: Sequence[Acl]) -> None:
        await self._take(Kind.USER, f"remove {', '.join(map(str, acls))}", lambda: self._brokers.delete_acls(acls))

    async def alter_quotas(self, name: str, limits: Mapping[str, float | None]) -> None:
        await self._take(Kind.USER, f"{name}: limits {dict(limits)}", lambda: self._brokers.alter_quotas(name, limits))

    async def _take(self, kind: Kind, what: str, call: Callable[[], Awaitable[None]], node_id: NodeId = -1) -> None:
        await self._steps.take(StepTaken(kind, node_id, what), call)


def watched(connect: Connect, steps: StepTaker) -> Connect:
    """Return the way to brokers whose changes are ``steps``."""

    @asynccontextmanager
    async def connected(bootstrap_servers: str, properties: Mapping[str, str]) -> AsyncIterator[BrokerAdmin]:
        async with connect(bootstrap_servers, properties) as brokers:
            yield WatchedBrokers(brokers, steps)

    return connected
