"""What users ask for in a simulation: objects as they are at first, and as they are to become."""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla_operator.model.document import API_VERSION, Document, Json
from ottla_operator.model.manifest import Cluster, Topic
from ottla_operator.model.node_doors import STANDARD_AUTHORIZER
from ottla_operator.model.user import User

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
    """Return a User of that cluster who reads ``topics`` and whatever begins like them."""
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
class Scenario:
    """From ``before``, which is there when the simulation begins to look, to ``after`` and without ``gone``."""

    name: str
    before: tuple[Document, ...]
    after: tuple[Document, ...]
    gone: tuple[str, ...] = ()
    """Names of Users that are deleted."""

    @property
    def topics(self) -> list[Topic]:
        """The topics that are there all the time, and have users."""
        return [Topic.parse(it) for it in self.before if it["kind"] == "Topic"]

    @property
    def min_in_sync(self) -> dict[str, int]:
        """By topic: the least that is ever asked for."""
        return _least((it.topic_name, int(it.config["min.insync.replicas"])) for it in self._asked())

    @property
    def replication_factors(self) -> dict[str, int]:
        """By topic: the least that is ever asked for."""
        return _least((it.topic_name, it.replication_factor or 1) for it in self._asked())

    @property
    def factors_wanted(self) -> dict[str, int]:
        """By topic: the replication factor in the end."""
        return {it.topic_name: it.replication_factor or 1 for it in self._asked()}

    @property
    def users_wanted(self) -> dict[str, User]:
        """By the name of the object: the Users in the end."""
        asked = {it.metadata.name: it for it in self.users_asked}
        return {name: it for name, it in asked.items() if name not in self.gone}

    @property
    def users_asked(self) -> list[User]:
        """Every User as it is ever asked for."""
        return [User.parse(it) for it in (*self.before, *self.after) if it["kind"] == "User"]

    def _asked(self) -> list[Topic]:
        return [Topic.parse(it) for it in (*self.before, *self.after) if it["kind"] == "Topic"]

    @property
    def wanted(self) -> Cluster:
        return Cluster.parse(next(it for it in reversed((*self.before, *self.after)) if it["kind"] == "Cluster"))


def _least(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in pairs:
        found[name] = min(number, found.get(name, number))
    return found


def _main(nodes: int) -> Document:
    return pool("main", nodes)


def _more(nodes: int) -> Document:
    return pool("more", nodes, "broker", 10)


_QUORUM = pool("quorum", 3, "controller", 20)
_FLIGHTS = topic("flights", 3, 3, 2)
_LOCKED = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
_CHANGED = {"log_retention_hours": "24"}

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
    Scenario("shrink-combined", (cluster(_main(4)), _FLIGHTS, topic("delays", 4, 2, 1)), (cluster(_main(3)),)),
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
)
"""Every kind of change that a Cluster, a Topic and a User know."""

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
