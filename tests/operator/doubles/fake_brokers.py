"""Brokers in memory, behind the operator's port: topics, users, configs and a quorum, with Kafka's errors."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ottla.client.admin_security import ScramSecret
from ottla.errors import ErrorCode, KafkaError
from ottla.sasl.scram import ScramMechanism, salted_password
from ottla.types import Endpoint, TopicPartition
from ottla.wire.acl_codes import Acl
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.ports.broker_admin import BrokerAdmin, NewTopic, TopicDescription
from ottla_operator.ports.cluster_view import ClusterView, FeatureView, PartitionView, QuorumMember
from ottla_operator.ports.user_admin import UserDescription

Document = dict[str, Any]


class FakeUsers:
    """Users on the brokers, by name: with Kafka's errors, and a log of changes."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.has_authorizer = True
        self.acls: set[Acl] = set()
        self.scram: dict[str, dict[int, ScramSecret]] = {}
        self.quotas: dict[str, dict[str, float]] = {}

    async def describe_users(self, names: Collection[str]) -> Mapping[str, UserDescription]:
        self._fail("describe_users")
        return {name: self._described(name) for name in names}

    def _described(self, name: str) -> UserDescription:
        acls = frozenset(acl for acl in self.acls if acl.principal == f"User:{name}")
        return UserDescription(
            acls=acls if self.has_authorizer else None,
            scram={mechanism: it.iterations for mechanism, it in self.scram.get(name, {}).items()},
            quotas=dict(self.quotas.get(name, {})),
        )

    async def alter_scram(self, name: str, *, upserts: Sequence[ScramSecret], deletions: Sequence[int]) -> None:
        self._fail("alter_scram")
        self.changes.append(f"scram {name} +{[it.mechanism for it in upserts]} -{list(deletions)}")
        kept = self.scram.setdefault(name, {})
        kept.update({it.mechanism: it for it in upserts})
        for mechanism in deletions:
            kept.pop(mechanism, None)
        if not kept:
            del self.scram[name]

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        self._fail("create_acls")
        self.changes.append(f"acls +{len(acls)}")
        self.acls.update(acls)

    async def delete_acls(self, acls: Sequence[Acl]) -> None:
        self._fail("delete_acls")
        self.changes.append(f"acls -{len(acls)}")
        self.acls.difference_update(acls)

    async def alter_quotas(self, name: str, limits: Mapping[str, float | None]) -> None:
        self._fail("alter_quotas")
        self.changes.append(f"quotas {name} {dict(limits)}")
        changed: dict[str, float | None] = {**self.quotas.get(name, {}), **limits}
        self.quotas[name] = {key: limit for key, limit in changed.items() if limit is not None}
        if not self.quotas[name]:
            del self.quotas[name]

    def accepting_mechanisms(self, name: str, password: str) -> set[int]:
        """Return the mechanisms for which the password is right."""
        return {
            mechanism
            for mechanism, it in self.scram.get(name, {}).items()
            if salted_password(ScramMechanism(mechanism), password, it.salt, it.iterations) == it.salted_password
        }

    def _fail(self, call: str) -> None:
        if call in self.fails:
            raise self.fails[call]


class FakeBrokers(FakeUsers):
    """Brokers as the reconciler sees them: topics in a dictionary, Kafka's errors, and a log of changes."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster_id = "c2FtZS1jbHVzdGVyLWlkIQ"
        self.broker_ids: tuple[int, ...] = (0,)
        self.fenced_ids: tuple[int, ...] = ()
        self.controller_id = 0
        self.voters: tuple[QuorumMember, ...] | None = None
        self.observers: tuple[QuorumMember, ...] = ()
        self.moving: dict[TopicPartition, tuple[int, ...]] = {}
        self.topics: dict[str, TopicDescription] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.known_configs = {"retention.ms", "cleanup.policy", "segment.bytes"}
        self.broker_configs: dict[str, str] = {}
        self.levels = {"metadata.version": 30}
        self.partitions_max = 1_000
        self.is_reachable = True
        self.advertised: dict[int, str] = {}
        self.addresses: list[str] = []
        self.properties: list[Mapping[str, str]] = []
        self.requests: list[str] = []
        """Descriptions and creations of topics, and the number of topics in each."""
        self._created = 0

    @asynccontextmanager
    async def connect(self, bootstrap_servers: str, properties: Mapping[str, str]) -> AsyncIterator[BrokerAdmin]:
        self.addresses.append(bootstrap_servers)
        self.properties.append(properties)
        if not self.is_reachable:
            raise BrokerUnreachableError(f"no broker responds at {bootstrap_servers}")
        yield self

    def add_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        self._created += 1
        topic_id = f"id-{self._created}"
        replicas = self.broker_ids[:replication_factor]
        self.topics[name] = TopicDescription(name=name, topic_id=topic_id, replicas=(replicas,) * partitions)
        self.configs[name] = dict(config or {})
        return topic_id

    async def observe(
        self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False, with_settings: bool = False
    ) -> ClusterView:
        self._fail("observe")
        voters = (QuorumMember(node_id=self.controller_id, directory_id="d", is_caught_up=True),)
        return ClusterView(
            cluster_id=self.cluster_id,
            brokers=dict.fromkeys(self.broker_ids, False) | dict.fromkeys(self.fenced_ids, True),
            controller_id=self.controller_id,
            voters=voters if self.voters is None else self.voters,
            observers=self.observers,
            partitions=tuple(
                self._partition(TopicPartition(name, number), replicas)
                for name in sorted(self.topics if topics is None else topics)
                for number, replicas in enumerate(self.topics[name].replicas)
            ),
            configs=dict(self.broker_configs) if with_settings else {},
            features={name: FeatureView(level=level, last_supported=30) for name, level in self.levels.items()}
            if with_settings
            else {},
        )

    async def advertised_listeners(self, node_id: int) -> str:
        self._fail("advertised_listeners")
        return self.advertised[node_id]

    def _partition(self, partition: TopicPartition, replicas: tuple[int, ...]) -> PartitionView:
        target = self.moving.get(partition, replicas)
        return PartitionView(
            partition=partition,
            leader=replicas[0],
            replicas=(*target, *(node for node in replicas if node not in target)),
            isr=replicas,
            adding=tuple(node for node in target if node not in replicas),
            removing=tuple(node for node in replicas if node not in target),
        )

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        self._fail("reassign_partitions")
        for partition, replicas in targets.items():
            self.changes.append(f"move {partition} {list(replicas)}")
            self.moving[partition] = tuple(replicas)

    def finish_moves(self) -> None:
        """Complete every reassignment."""
        for partition, target in self.moving.items():
            before = self.topics[partition.topic]
            replicas = list(before.replicas)
            replicas[partition.partition] = target
            self.topics[partition.topic] = replace(before, replicas=tuple(replicas))
        self.moving.clear()

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(f"elect {', '.join(map(str, partitions))}")

    async def alter_broker_configs(self, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        self._fail("alter_broker_configs")
        self.broker_configs.update(upserts)
        for key in deletions:
            del self.broker_configs[key]

    async def update_features(self, levels: Mapping[str, int], *, is_down: bool) -> None:
        self._fail("update_features")
        if unknown := levels.keys() - self.levels:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{unknown} is not supported")
        assert all((level < self.levels[name]) == is_down for name, level in levels.items())
        self.levels.update(levels)

    async def unregister_broker(self, node_id: int) -> None:
        self.changes.append(f"unregister {node_id}")

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        self.changes.append(f"add voter {node_id} {directory_id} {endpoint}")

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        self.changes.append(f"remove voter {node_id} {directory_id}")

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        self._fail("describe_topics")
        self.requests.append(f"describe {len(names)}")
        moving = {partition.topic for partition in self.moving}
        return {
            name: replace(self.topics[name], is_in_sync=name not in moving) for name in names if name in self.topics
        }

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {name: dict(self.configs[name]) for name in names}

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        self.requests.append(f"create {len(topics)}")
        rejected: dict[str, KafkaError] = {}
        for topic in topics:
            try:
                self._create(topic)
            except KafkaError as error:
                rejected[topic.name] = error
        return rejected

    def _create(self, topic: NewTopic) -> None:
        self._fail("create_topics")
        name, factor = topic.name, topic.replication_factor or 1
        if name in self.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if factor > len(self.broker_ids):
            message = f"Unable to replicate the partition {factor} time(s)"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        self._check_configs(topic.config)
        self.changes.append(f"create {name} {topic.partitions}")
        self.add_topic(name, partitions=topic.partitions, replication_factor=factor, config=topic.config)

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None:
        self._fail("create_partitions")
        if total > self.partitions_max:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"{total} partitions are too many")
        if not validate_only:
            self.changes.append(f"partitions {name} {total}")
            before = self.topics[name]
            added = total - before.partitions
            self.topics[name] = replace(before, replicas=before.replicas + before.replicas[:1] * added)

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        self._fail("alter_topic_configs")
        self._check_configs(upserts)
        if not validate_only:
            self.changes.append(f"configs {name} {dict(upserts)} -{list(deletions)}")
            self.configs[name].update(upserts)
            for key in deletions:
                self.configs[name].pop(key, None)

    async def delete_topic(self, name: str) -> None:
        self._fail("delete_topic")
        self.changes.append(f"delete {name}")
        del self.topics[name]

    def _check_configs(self, config: Mapping[str, str]) -> None:
        for key in config:
            if key not in self.known_configs:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
