"""Scenarios of a simulation: objects with their first specs, and with their last ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from operator_simulation.api_faults import SPELLS, ApiFault
from operator_simulation.host import BROKEN_IMAGE
from operator_simulation.steps import Kind
from ottla_operator.model.document import API_VERSION, Document, Json
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.node_listeners import STANDARD_AUTHORIZER
from ottla_operator.model.storage import DELETE
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User
from ottla_operator.planning.cluster.rolling import ROLL_HALTED

CLUSTER = "c"


def pool(name: str, nodes: int, roles: str = "broker controller", first: int = 0) -> Document:
    """Return one pool of a Cluster's spec."""
    storage = {"size": "1Gi"}
    return {"name": name, "nodes": nodes, "roles": roles.split(), "firstNodeId": first, "storage": storage}


def cluster(*pools: Document, **config: str) -> Document:
    """Return a Cluster; keys of ``config`` have underscores for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    spec = {"pools": list(pools), "config": settings}
    return {"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"name": CLUSTER}, "spec": spec}


def having(document: Document, **spec: Json) -> Document:
    """Return the object with more in its spec."""
    return {**document, "spec": {**document["spec"], **spec}}


def scaled(document: Document, **scaling: Json) -> Document:
    """Return the Cluster with ``spec.scaling``."""
    return having(document, scaling=scaling)


def topic(name: str, partitions: int, replicas: int, min_in_sync: int) -> Document:
    """Return a Topic of that cluster."""
    spec = {
        "clusterRef": {"name": CLUSTER},
        "partitions": partitions,
        "replicationFactor": replicas,
        "config": {"min.insync.replicas": str(min_in_sync)},
    }
    return {"apiVersion": API_VERSION, "kind": "Topic", "metadata": {"name": name}, "spec": spec}


def user(name: str, *topics: str, revision: str = "", overlap_s: int = 0, **spec: Json) -> Document:
    """Return a User of that cluster who reads ``topics`` and all topics with these prefixes."""
    spec |= {
        "clusterRef": {"name": CLUSTER},
        "authentication": {
            "type": "scram-sha-512",
            "rotation": {"revision": revision, "overlapSeconds": overlap_s},
        },
        "authorization": {
            "rules": [
                {
                    "resource": {"type": "topic", "name": topic, "patternType": pattern},
                    "operations": ["Read", "Describe"],
                }
                for topic in topics
                for pattern in ("literal", "prefix")
            ]
        },
    }
    return {"apiVersion": API_VERSION, "kind": "User", "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True, slots=True)
class Stage:
    """An intermediate spec, and its end: a step of a kind, or a reason of the Cluster's condition Ready.

    Attributes:
        asked: the objects.
        until: a kind of step, or the reason of the Cluster's condition Ready.
        hold_ms: how much longer it stays.
    """

    asked: tuple[Document, ...]
    until: Kind | str
    hold_ms: int = 0


class Second(Enum):
    """Another installation of the operator, that watches the same objects."""

    BESIDE = "beside"
    """Both run all the time."""
    HEIR = "heir"
    """The first is removed in the middle of the change."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """From ``before``, which exists at the start, to ``after``, without ``gone``."""

    name: str
    before: tuple[Document, ...]
    after: tuple[Document, ...]
    gone: tuple[str, ...] = ()
    """Names of Users that are deleted."""
    on_the_way: tuple[Stage, ...] = ()
    """Intermediate specs, one after the other, before ``after``."""
    racks: int = 0
    """Number of racks, which hosts are in by turns; 0: no racks."""
    second: Second | None = None
    api_faults: frozenset[ApiFault] = frozenset()
    """Faults of the API server meanwhile."""

    @property
    def topics(self) -> list[Topic]:
        """The topics that exist all the time, and have clients."""
        return [Topic.parse(it) for it in self.before if it["kind"] == "Topic"]

    @property
    def min_in_sync(self) -> dict[str, int]:
        """By topic: the minimum over all its specs."""
        return _least((it.topic_name, int(it.config["min.insync.replicas"])) for it in self._asked())

    @property
    def replication_factors(self) -> dict[str, int]:
        """By topic: the minimum over all its specs."""
        return _least((it.topic_name, it.replication_factor or 1) for it in self._asked())

    @property
    def factors_wanted(self) -> dict[str, int]:
        """By topic: the replication factor at the end."""
        return {it.topic_name: it.replication_factor or 1 for it in self._asked()}

    @property
    def users_wanted(self) -> dict[str, User]:
        """By the name of the object: the Users at the end."""
        asked = {it.metadata.name: it for it in self.users_asked}
        return {name: it for name, it in asked.items() if name not in self.gone}

    @property
    def users_asked(self) -> list[User]:
        """Every User with each of its specs."""
        return [User.parse(it) for it in self._documents if it["kind"] == "User"]

    def _asked(self) -> list[Topic]:
        return [Topic.parse(it) for it in self._documents if it["kind"] == "Topic"]

    @property
    def _documents(self) -> tuple[Document, ...]:
        return (*self.before, *(it for stage in self.on_the_way for it in stage.asked), *self.after)

    @property
    def newcomers(self) -> frozenset[int]:
        """Brokers of the last spec that are not in the first one."""
        first = [Cluster.parse(it).broker_ids for it in self.before if it["kind"] == "Cluster"]
        return frozenset(self.wanted.broker_ids).difference(*first)

    @property
    def wanted(self) -> Cluster:
        return Cluster.parse(next(it for it in reversed(self._documents) if it["kind"] == "Cluster"))


def _least(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in pairs:
        found[name] = min(number, found.get(name, number))
    return found


def _main(nodes: int) -> Document:
    return pool("main", nodes)


def _more(nodes: int) -> Document:
    return pool("more", nodes, "broker", 10)


def _kept(nodes: int) -> Document:
    """Return a pool whose nodes leave nothing behind."""
    return {**_main(nodes), "storage": {"size": "1Gi", "onScaleDown": DELETE}}


_QUORUM = pool("quorum", 3, "controller", 20)
_FLIGHTS = topic("flights", 3, 3, 2)
_LOCKED = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
_SLOWLY = {"throttleBytesPerSecond": 1_000_000}
_CHANGED = {"log_retention_hours": "24"}
_APART = (pool("quorum", 1, "controller", 20), pool("main", 4, "broker"))
_BY_RACK = {"rolling": {"parallelism": "Rack"}}
_AT_NEW_YEAR = {"maintenanceWindows": [{"schedule": "0 0 1 1 *", "durationMinutes": 30}]}
"""Half a minute after the start: nodes are ready by then."""
_LOST_RESPONSES = frozenset({ApiFault.LOST, ApiFault.LATE, ApiFault.TIMEOUT, ApiFault.SLOW})
_ERRORS = frozenset({ApiFault.CONFLICT, ApiFault.BUSY, ApiFault.ERROR, ApiFault.UNAVAILABLE})
_A_WHILE_MS = 12_000
"""Long enough for several reconciliations while the operator waits."""

SCENARIOS = (
    Scenario("create", (), (cluster(_main(3)), _FLIGHTS)),
    Scenario("create-apart", (), (cluster(_QUORUM, pool("main", 3, "broker")), _FLIGHTS)),
    Scenario("roll", (cluster(_main(3)), _FLIGHTS), (cluster(_main(3), **_CHANGED),)),
    Scenario(
        "roll-apart",
        (cluster(_QUORUM, pool("main", 3, "broker")), _FLIGHTS),
        (cluster(_QUORUM, pool("main", 3, "broker"), **_CHANGED),),
    ),
    Scenario("grow", (cluster(_main(3), _more(0)), _FLIGHTS), (cluster(_main(3), _more(1)), topic("later", 4, 3, 2))),
    Scenario(
        "shrink",
        (cluster(_main(3), _more(1)), _FLIGHTS, topic("delays", 4, 2, 1)),
        (cluster(_main(3), _more(0)),),
    ),
    Scenario(
        "shrink-throttled",
        (scaled(cluster(_main(3), _more(2)), **_SLOWLY), _FLIGHTS, topic("delays", 4, 2, 1)),
        (scaled(cluster(_main(3), _more(0)), **_SLOWLY),),
    ),
    Scenario(
        "grow-and-rebalance",
        (scaled(cluster(_main(3), _more(0)), onScaleUp="Rebalance", **_SLOWLY), _FLIGHTS, topic("delays", 4, 2, 1)),
        (scaled(cluster(_main(3), _more(2)), onScaleUp="Rebalance", **_SLOWLY),),
    ),
    Scenario("five-voters", (cluster(_main(3)), _FLIGHTS), (cluster(_main(5)),)),
    Scenario("three-voters-of-five", (cluster(_main(5)), _FLIGHTS), (cluster(_main(3)),)),
    Scenario("shrink-combined", (cluster(_main(4)), _FLIGHTS, topic("delays", 4, 2, 1)), (cluster(_main(3)),)),
    Scenario("shrink-for-good", (cluster(_kept(4)), _FLIGHTS), (cluster(_kept(3)),)),
    Scenario("more-voters", (cluster(_main(1)), topic("flights", 2, 1, 1)), (cluster(_main(3)),)),
    Scenario("fewer-voters", (cluster(_main(3)), topic("flights", 2, 1, 1)), (cluster(_main(1)),)),
    Scenario("more-replicas", (cluster(_main(3)), topic("flights", 3, 1, 1)), (topic("flights", 3, 3, 1),)),
    Scenario("fewer-replicas", (cluster(_main(3)), topic("flights", 3, 3, 1)), (topic("flights", 3, 2, 1),)),
    Scenario(
        "shrink-and-roll",
        (cluster(_main(3), _more(2)), _FLIGHTS, topic("delays", 4, 2, 1)),
        (cluster(_main(3), _more(1), **_CHANGED), topic("delays", 4, 3, 1)),
    ),
    Scenario(
        "users",
        (
            cluster(_main(3), **_LOCKED),
            _FLIGHTS,
            user("alice", "flights", quotas={"producerByteRate": 1000, "consumerByteRate": 5}),
            user("bob", "flights", quotas={"producerByteRate": 1000}),
            user("carol", "flights", overlap_s=600),
        ),
        (
            user("alice", "delays", quotas={"producerByteRate": 2000, "requestPercentage": 9}),
            user("carol", "flights", revision="2", overlap_s=600),
            user("dave", "flights"),
        ),
        gone=("bob",),
    ),
    # One rack has two replicas of the only flight, so its brokers go one by one; the brokers of the other go together.
    Scenario(
        "roll-racks",
        (having(cluster(*_APART), **_BY_RACK), topic("flights", 1, 3, 2), topic("delays", 4, 2, 1)),
        (having(cluster(*_APART, **_CHANGED), **_BY_RACK),),
        racks=2,
    ),
    Scenario(
        "voters-up-and-down",
        (cluster(_main(1)), topic("flights", 2, 1, 1)),
        (cluster(_main(3)),),
        on_the_way=(Stage((cluster(_main(3)),), "Ready"), Stage((cluster(_main(5)),), "Ready")),
    ),
    Scenario(
        "shrink-and-grow-back",
        (cluster(_main(3), _more(1)), _FLIGHTS, topic("delays", 8, 2, 1)),
        (cluster(_main(3), _more(1)),),
        on_the_way=(Stage((cluster(_main(3), _more(0)),), Kind.CONFIGURE),),
    ),
    Scenario(
        "grow-and-wait",
        (scaled(cluster(_main(3), _more(0)), onScaleUp="None"), _FLIGHTS),
        (topic("later", 4, 3, 2),),
        on_the_way=(Stage((scaled(cluster(_main(3), _more(2)), onScaleUp="None"),), "Ready"),),
    ),
    Scenario(
        "roll-back",
        (having(cluster(_main(3)), image="ottla:1"), _FLIGHTS),
        (having(cluster(_main(3)), image="ottla:1"),),
        on_the_way=(Stage((having(cluster(_main(3)), image=BROKEN_IMAGE),), ROLL_HALTED, _A_WHILE_MS),),
    ),
    Scenario(
        "roll-in-window",
        (having(cluster(_main(3)), **_AT_NEW_YEAR), _FLIGHTS),
        (having(cluster(_main(3), **_CHANGED), **_AT_NEW_YEAR),),
    ),
    Scenario(
        "roll-paused",
        (cluster(_main(3)), _FLIGHTS),
        (cluster(_main(3), **_CHANGED),),
        on_the_way=(
            Stage((cluster(_main(3), **_CHANGED),), Kind.RESTART),
            Stage((having(cluster(_main(3), **_CHANGED), paused=True),), "Paused", _A_WHILE_MS),
        ),
    ),
    Scenario(
        "roll-beside-another",
        (cluster(_main(3)), _FLIGHTS),
        (cluster(_main(3), **_CHANGED), topic("later", 4, 3, 2)),
        second=Second.BESIDE,
    ),
    Scenario(
        "roll-while-api-is-away",
        (cluster(_main(3)), _FLIGHTS),
        (cluster(_main(3), **_CHANGED),),
        api_faults=frozenset({ApiFault.AWAY, ApiFault.TIMEOUT}),
    ),
    Scenario(
        "roll-unanswered",
        (cluster(_main(3)), _FLIGHTS),
        (cluster(_main(3), **_CHANGED),),
        api_faults=_LOST_RESPONSES,
    ),
    Scenario(
        "shrink-for-good-unanswered",
        (cluster(_kept(4)), _FLIGHTS),
        (cluster(_kept(3)),),
        api_faults=_LOST_RESPONSES,
    ),
    Scenario(
        "grow-refused-and-unseen",
        (cluster(_main(3), _more(0)), _FLIGHTS),
        (cluster(_main(3), _more(1)), topic("later", 4, 3, 2)),
        api_faults=_ERRORS | SPELLS,
    ),
    Scenario(
        "rotation-unanswered",
        (
            cluster(_main(3), **_LOCKED),
            _FLIGHTS,
            user("alice", "flights"),
            user("bob", "flights"),
            user("carol", "flights", overlap_s=600),
        ),
        (
            user("alice", "flights", revision="2"),
            user("carol", "flights", revision="2", overlap_s=600),
            user("dave", "flights"),
        ),
        gone=("bob",),
        api_faults=_LOST_RESPONSES | _ERRORS,
    ),
    Scenario(
        "roll-taken-over",
        (cluster(_main(3)), _FLIGHTS),
        (cluster(_main(3), **_CHANGED), topic("later", 4, 3, 2)),
        second=Second.HEIR,
    ),
    Scenario(
        "roll-rejected",
        (cluster(_main(3)), _FLIGHTS),
        (cluster(_main(3), **_CHANGED),),
        api_faults=frozenset({ApiFault.PODS_REJECTED}),
    ),
)
"""Every kind of change that a Cluster, a Topic and a User know."""

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
