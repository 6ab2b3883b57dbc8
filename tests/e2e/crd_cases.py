"""Manifests for the tests of the CRDs: builders, and lists of manifests and changes with their expected result."""

import copy
from typing import Any

import pytest

Document = dict[str, Any]

TOPIC: Document = {"clusterRef": {"name": "nowhere"}, "partitions": 6}
POOL: Document = {"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}
GIVEN: Document = {"password": {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}}
BROKERS: Document = {**POOL, "name": "b", "roles": ["broker"], "firstNodeId": 1}


def topic(**spec: Any) -> Document:
    return {"kind": "Topic", "spec": {**TOPIC, **spec}}


def in_sync(least: str, factor: int | None = None) -> Document:
    """Return a Topic with a min.insync.replicas."""
    return topic(config={"min.insync.replicas": least}, **({} if factor is None else {"replicationFactor": factor}))


def cluster(config: Document | None = None, **pool: Any) -> Document:
    return {"kind": "Cluster", "spec": {"pools": [{**POOL, **pool}], **({"config": config} if config else {})}}


def cluster_with(**spec: Any) -> Document:
    """Return a Cluster of one pool with further fields in its spec."""
    return {"kind": "Cluster", "spec": {"pools": [POOL], **spec}}


def two_pools(**pool: Any) -> Document:
    return {"kind": "Cluster", "spec": {"pools": [{**POOL, **pool}, BROKERS]}}


def open_to(*namespaces: str) -> Document:
    return cluster_with(allowedNamespaces=list(namespaces))


def window(schedule: str, **more: Any) -> Document:
    return cluster_with(maintenanceWindows=[{"schedule": schedule, "durationMinutes": 60, **more}])


def rolling(**policy: Any) -> Document:
    return cluster_with(rolling=policy)


def disks(*names: str, **volume: str) -> Document:
    return {"size": "1Gi", "volumes": [{"name": name, "size": "1Gi", **volume} for name in names]}


def user(kind: str = "scram-sha-512", rules: list[Document] | None = None, **spec: Any) -> Document:
    authentication = {"type": kind, **spec.pop("authentication", {})}
    authorization = {} if rules is None else {"authorization": {"rules": rules}}
    return {
        "kind": "User",
        "spec": {"clusterRef": {"name": "nowhere"}, "authentication": authentication, **authorization, **spec},
    }


def rule(kind: str, *operations: str, **resource: Any) -> Document:
    return {"resource": {"type": kind, **resource}, "operations": list(operations)}


def listener(more: Document | None = None, **words: Any) -> Document:
    found = {"name": "out", "port": 9094, **words}
    return cluster_with(tls={}, listeners=[found], **(more or {}))


def authority(**words: Any) -> Document:
    return cluster_with(tls={"clusterCa": words})


def balancer(name: str | None) -> Document:
    return listener(type="loadbalancer", outside={} if name is None else {"loadBalancerClass": name})


def without(document: Document, field: str) -> Document:
    shorter = copy.deepcopy(document)
    del shorter["spec"][field]
    return shorter


NEW = [
    pytest.param(cluster_with(version="0.2.0"), True, id="release"),
    pytest.param(cluster_with(version="0.2.0-rc.1"), True, id="release-candidate"),
    pytest.param(cluster_with(version="latest"), False, id="no-release"),
    pytest.param(cluster_with(features={"policy": "AfterUpgrade"}), True, id="features-after-an-upgrade"),
    pytest.param(cluster_with(features={"policy": "Always"}), False, id="unknown-policy"),
    pytest.param(cluster_with(features={"levels": {"metadata.version": 30}}), True, id="level"),
    pytest.param(cluster_with(features={"levels": {"metadata.version": "4.3"}}), False, id="level-by-name"),
    pytest.param(cluster_with(features={"levels": {"metadata.version": -1}}), False, id="level-below-none"),
    pytest.param(topic(), True, id="smallest-topic"),
    pytest.param(
        topic(topicName="A_b.c-9", replicationFactor=3, config={"retention.ms": "-1"}, deletionPolicy="Delete"),
        True,
        id="fullest-topic",
    ),
    pytest.param(topic(partitions=100_000), True, id="most-partitions"),
    pytest.param(topic(partitions=100_001), False, id="too-many-partitions"),
    pytest.param(topic(partitions=0), False, id="no-partitions"),
    pytest.param(topic(partitions="6"), False, id="partitions-as-string"),
    pytest.param(topic(partitions=1.5), False, id="half-a-partition"),
    pytest.param(topic(partitions=True), False, id="partitions-as-boolean"),
    pytest.param(topic(partitions=None), False, id="partitions-null"),
    pytest.param(topic(replicationFactor=0), False, id="no-replicas"),
    pytest.param(topic(replicationFactor=32_768), False, id="too-many-replicas"),
    pytest.param(topic(topicName=""), False, id="empty-name"),
    pytest.param(topic(topicName="t" * 249), True, id="longest-name"),
    pytest.param(topic(topicName="t" * 250), False, id="too-long-name"),
    pytest.param(topic(topicName="a/b"), False, id="slash-in-name"),
    pytest.param(topic(topicName=".."), False, id="dots-for-a-name"),
    pytest.param(topic(config={"retention.ms": 5}), False, id="config-as-number"),
    pytest.param(topic(config={"preallocate": True}), False, id="config-as-boolean"),
    pytest.param(topic(config=[]), False, id="config-as-list"),
    pytest.param(topic(config={f"key.{number}": "x" for number in range(101)}), False, id="too-many-configs"),
    pytest.param(topic(deletionPolicy="Forget"), False, id="unknown-policy"),
    pytest.param(topic(retention=5), False, id="unknown-field"),
    pytest.param(topic(clusterRef={"name": "a", "kind": "b"}), False, id="unknown-field-inside"),
    pytest.param(topic(clusterRef={}), False, id="reference-without-name"),
    pytest.param(topic(clusterRef={"name": "a", "namespace": "b"}), True, id="cluster-of-another-namespace"),
    pytest.param(topic(clusterRef={"name": "a", "namespace": "B"}), False, id="namespace-in-capitals"),
    pytest.param(topic(clusterRef={"name": "a", "namespace": ""}), False, id="empty-namespace"),
    pytest.param(topic(topicName="__consumer_offsets"), False, id="topic-of-kafka's-own"),
    pytest.param(topic(topicName="__cluster_metadata"), False, id="topic-of-the-controllers"),
    pytest.param(topic(topicName="__consumer_offset"), True, id="name-like-kafka's-own"),
    pytest.param(in_sync("2", 2), True, id="as-many-replicas-as-must-be-in-sync"),
    pytest.param(in_sync("3", 2), False, id="fewer-replicas-than-must-be-in-sync"),
    pytest.param(in_sync("10", 9), False, id="numbers-are-no-texts"),
    pytest.param(in_sync("3"), True, id="replicas-left-to-the-brokers"),
    pytest.param(in_sync("some", 1), True, id="words-stay-a-matter-of-the-brokers"),
    pytest.param(in_sync("9999999999", 1), True, id="so-do-numbers-that-are-none"),
    pytest.param(topic(replicationFactor=1, config={"retention.ms": "1"}), True, id="replicas-and-other-configs"),
    pytest.param(topic(paused=True), True, id="paused-topic"),
    pytest.param(without(topic(), "partitions"), False, id="partitions-missing"),
    pytest.param(without(topic(), "clusterRef"), False, id="reference-missing"),
    pytest.param(cluster(), True, id="smallest-cluster"),
    pytest.param(
        cluster(
            {"num.partitions": "3"},
            storage={"size": "10Gi", "storageClassName": "fast"},
            resources={"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": 2}},
        ),
        True,
        id="fullest-cluster",
    ),
    pytest.param(window("0 2 * * 6", timeZone="Europe/Prague"), True, id="maintenance-window"),
    pytest.param(window("0 2 * *"), False, id="four-fields"),
    pytest.param(window("0 2 * * 6", durationMinutes=0), False, id="window-of-no-time"),
    pytest.param(rolling(parallelism="Rack", maxUnavailable=3), True, id="racks-roll-by-threes"),
    pytest.param(rolling(parallelism="Node"), True, id="nodes-roll-one-by-one"),
    pytest.param(rolling(parallelism="All"), False, id="unknown-parallelism"),
    pytest.param(rolling(maxUnavailable=3), False, id="several-nodes-without-racks"),
    pytest.param(rolling(parallelism="Rack", maxUnavailable=0), False, id="no-node-at-a-time"),
    pytest.param(cluster(nodes=2), False, id="two-controllers"),
    pytest.param(cluster(nodes=3), True, id="three-nodes"),
    pytest.param(cluster(roles=["broker"]), False, id="no-controller"),
    pytest.param(cluster(roles=["controller"]), False, id="no-broker"),
    pytest.param(cluster(roles=["broker", "broker", "controller"]), False, id="role-twice"),
    pytest.param(cluster(nodes=0), False, id="no-nodes"),
    pytest.param(cluster(name="Main"), False, id="pool-name-in-capitals"),
    pytest.param(cluster(name="p" * 12), True, id="longest-pool-name"),
    pytest.param(cluster(name="p" * 13), False, id="too-long-pool-name"),
    pytest.param(cluster(storage={"size": "1 GB"}), False, id="size-with-a-space"),
    pytest.param(cluster(storage={"size": 1}), False, id="size-as-number"),
    pytest.param(cluster(storage={}), False, id="no-size"),
    pytest.param(cluster_with(scaling={"onScaleUp": "Rebalance", "throttleBytesPerSecond": 1000}), True, id="scaling"),
    pytest.param(cluster_with(scaling={"onScaleUp": "None"}), True, id="new-brokers-wait"),
    pytest.param(cluster_with(scaling={"onScaleUp": "Some"}), False, id="unknown-way-to-scale"),
    pytest.param(cluster_with(scaling={"throttleBytesPerSecond": 999}), False, id="throttle-that-never-ends"),
    pytest.param(cluster(storage={**disks("d1", "d2"), "onScaleDown": "Delete"}), True, id="disks"),
    pytest.param(cluster(storage=disks("d1", "d1")), False, id="disk-twice"),
    pytest.param(cluster(storage=disks("tls")), False, id="disk-of-a-name-that-is-taken"),
    pytest.param(cluster(storage=disks("d-1")), False, id="dash-in-a-disk"),
    pytest.param(cluster(template={"affinity": {"nodeAffinity": {}}, "tolerations": [{"a": 1}]}), True, id="template"),
    pytest.param(cluster(template={"terminationGracePeriodSeconds": 9}), False, id="no-time-to-end"),
    pytest.param(cluster(template={"imagePullSecrets": [{}]}), False, id="pull-secret-without-a-name"),
    pytest.param(cluster_with(rack={"topologyKey": "a/b"}, deletionPolicy="Delete"), True, id="racks"),
    pytest.param(cluster_with(rack={}), False, id="racks-of-no-label"),
    pytest.param(cluster(resources={"limits": {"memory": "lots"}}), False, id="quantity-in-words"),
    pytest.param(cluster(resources={"limits": {"memory": 1.5}}), False, id="quantity-as-fraction"),
    pytest.param(cluster({"node.id": "1"}), False, id="config-of-the-operators"),
    pytest.param(cluster_with(pools=[]), False, id="no-pools"),
    pytest.param(cluster_with(pools=[POOL, {**POOL, "name": "b"}]), False, id="ids-in-common"),
    pytest.param(cluster_with(pools=[POOL, BROKERS]), True, id="two-pools"),
    pytest.param({"kind": "Cluster", "spec": {}}, False, id="pools-missing"),
    pytest.param(open_to("team-a", "*", "9"), True, id="open-to-namespaces"),
    pytest.param(open_to(), True, id="open-to-nobody"),
    pytest.param(open_to("team-a", "team-a"), False, id="namespace-twice"),
    pytest.param(open_to("team-*"), False, id="namespace-as-a-pattern"),
    pytest.param(open_to(""), False, id="open-to-no-name"),
    pytest.param(listener(type="nodeport", outside={"advertisedHost": "k.example"}), True, id="ports-of-a-host"),
    pytest.param(listener(type="nodeport", outside={"advertisedHost": "a:1"}), False, id="host-with-a-port"),
    pytest.param(
        listener(type="loadbalancer", outside={"advertisedHost": "k-{node}", "annotations": {"a": "{node}"}}),
        True,
        id="balancers-with-names",
    ),
    pytest.param(listener(type="loadbalancer", outside={"advertisedHost": "k"}), False, id="one-name-for-balancers"),
    pytest.param(listener(type="nodeport", outside={"loadBalancerClass": "x"}), False, id="class-of-a-port"),
    pytest.param(listener(type="internal", outside={}), False, id="outside-of-an-internal-listener"),
    pytest.param(listener(type="nodeport", name="n" * 15), False, id="too-long-a-name-for-services"),
    pytest.param(listener({"networkPolicy": {}}, allowFrom=[{"podSelector": {}}]), True, id="peers-of-a-listener"),
    pytest.param(listener(allowFrom=[]), False, id="peers-without-a-policy"),
    pytest.param(user(), True, id="smallest-user"),
    pytest.param(
        user(
            rules=[
                rule("topic", "Read", "DescribeConfigs", name="f", patternType="prefix"),
                {**rule("cluster", "IdempotentWrite"), "type": "deny", "host": "10.0.0.1"},
                rule("group", "Delete", name="*"),
                rule("transactionalId", "TwoPhaseCommit", name="t"),
            ],
            userName="CN=a b,O=c",
            authentication={"rotation": {"revision": "2", "overlapSeconds": 60}},
            quotas={
                "producerByteRate": 1,
                "consumerByteRate": 9_000_000_000,
                "requestPercentage": 200,
                "controllerMutationRate": 0.5,
            },
            secret={"labels": {"a": "b"}, "annotations": {"c": "d"}},
        ),
        True,
        id="fullest-user",
    ),
    pytest.param(user(rules=[rule("topic", "Read", name="t")] * 100), True, id="most-rules"),
    pytest.param(user(rules=[rule("topic", "Read", name="t")] * 101), False, id="too-many-rules"),
    pytest.param(user(authentication=GIVEN), True, id="given-password"),
    pytest.param(user("tls", authentication=GIVEN), False, id="password-beside-certificate"),
    pytest.param(user("oauth", authentication={"rotation": {}}), False, id="rotation-of-tokens"),
    pytest.param(user(authentication={**GIVEN, "rotation": {"revision": "2"}}), False, id="revision-of-given"),
    pytest.param(user(authentication={"password": "open sesame"}), False, id="password-in-the-open"),
    pytest.param(user("plain"), False, id="unknown-authentication"),
    pytest.param(user(userName="a\nb"), False, id="line-end-in-user-name"),
    pytest.param(user(userName="*"), False, id="everybody-as-a-user"),
    pytest.param(user(userName="*a"), True, id="star-before-a-user-name"),
    pytest.param(user(userName="u" * 249), True, id="longest-user-name"),
    pytest.param(user(userName="u" * 250), False, id="too-long-user-name"),
    pytest.param(user(rules=[rule("topic", "ClusterAction", name="t")]), False, id="no-operation-of-topics"),
    pytest.param(user(rules=[rule("group", "Write", name="t")]), False, id="no-operation-of-groups"),
    pytest.param(user(rules=[rule("cluster", "Read")]), False, id="no-operation-of-clusters"),
    pytest.param(user(rules=[rule("transactionalId", "Read", name="t")]), False, id="no-operation-of-transactions"),
    pytest.param(user(rules=[rule("cluster", "Create", name="c")]), False, id="named-cluster"),
    pytest.param(user(rules=[rule("cluster", "Create", patternType="prefix")]), False, id="cluster-as-prefix"),
    pytest.param(user(rules=[rule("topic", "Read")]), False, id="nameless-topic"),
    pytest.param(user(rules=[rule("topic", name="t")]), False, id="no-operations"),
    pytest.param(user(quotas={"producerByteRate": 0}), False, id="limit-of-nothing"),
    pytest.param(user(quotas={"controllerMutationRate": 0.001}), False, id="limit-of-next-to-nothing"),
    pytest.param(
        user(
            quotas={
                "producerByteRate": 10**12,
                "consumerByteRate": 10**12,
                "requestPercentage": 100_000,
                "controllerMutationRate": 100_000,
            }
        ),
        True,
        id="highest-limits",
    ),
    pytest.param(user(quotas={"producerByteRate": 10**12 + 1}), False, id="too-much-to-send"),
    pytest.param(user(quotas={"consumerByteRate": 10**12 + 1}), False, id="too-much-to-fetch"),
    pytest.param(user(quotas={"requestPercentage": 100_001}), False, id="too-many-threads"),
    pytest.param(user(quotas={"controllerMutationRate": 100_000.5}), False, id="too-many-mutations"),
    pytest.param(user(userName="User:alice"), False, id="principal-for-a-name"),
    pytest.param(user(userName="Users:alice"), True, id="name-like-a-principal"),
    pytest.param(user(rules=[rule("topic", "Read", name="*", patternType="prefix")]), False, id="all-as-a-prefix"),
    pytest.param(user(rules=[rule("topic", "Read", name="*a", patternType="prefix")]), True, id="prefix-with-a-star"),
    pytest.param(user(clusterRef={"name": "a", "namespace": "b"}), True, id="user-of-another-namespace"),
    pytest.param(user(paused=False), True, id="user-that-is-not-paused"),
]

CHANGES = [
    pytest.param(topic(), {}, topic(partitions=7), True, id="more-partitions"),
    pytest.param(topic(), {}, topic(partitions=5), False, id="fewer-partitions"),
    pytest.param(topic(), {"partitions": 0}, topic(partitions=5), True, id="fewer-of-a-topic-that-never-was"),
    pytest.param(topic(), {"partitions": 5}, topic(partitions=5), True, id="down-to-what-there-is"),
    pytest.param(topic(), {"partitions": 6}, topic(partitions=5), False, id="below-what-there-is"),
    pytest.param(topic(), {}, topic(topicName="other"), False, id="renamed"),
    pytest.param(topic(topicName="other"), {}, topic(), False, id="renamed-by-leaving-out"),
    pytest.param(topic(), {}, topic(clusterRef={"name": "elsewhere"}), False, id="moved"),
    pytest.param(
        topic(), {}, topic(clusterRef={**TOPIC["clusterRef"], "namespace": "other"}), False, id="moved-by-namespace"
    ),
    pytest.param(topic(), {}, topic(paused=True), True, id="paused"),
    pytest.param(topic(replicationFactor=3), {}, topic(replicationFactor=1), True, id="replicas-of-no-topic"),
    pytest.param(topic(), {"replicationFactor": 1}, topic(replicationFactor=1), True, id="the-replicas-there-are"),
    pytest.param(topic(), {"replicationFactor": 1}, topic(replicationFactor=2), True, id="other-replicas"),
    pytest.param(topic(config={"a": "1"}), {}, topic(), True, id="config-removed"),
    pytest.param(topic(), {}, topic(deletionPolicy="Delete"), True, id="other-policy"),
    pytest.param(user(), {}, user("tls"), False, id="other-authentication"),
    pytest.param(user(), {}, user(userName="bob"), False, id="user-renamed"),
    pytest.param(user(userName="bob"), {}, user(), False, id="user-renamed-by-leaving-out"),
    pytest.param(user(), {}, user(clusterRef={"name": "elsewhere"}), False, id="user-moved"),
    pytest.param(user(rules=[]), {}, user(authentication=GIVEN), True, id="user-with-other-password"),
    pytest.param(
        user(), {}, user(clusterRef={"name": "nowhere", "namespace": "other"}), False, id="user-moved-by-namespace"
    ),
    pytest.param(open_to("team-a"), {}, open_to(), True, id="closed-again"),
    pytest.param(balancer("x"), {}, balancer("x"), True, id="class-of-balancers-kept"),
    pytest.param(balancer("x"), {}, balancer("y"), False, id="another-class-of-balancers"),
    pytest.param(balancer(None), {}, balancer("x"), False, id="class-of-balancers-given"),
    pytest.param(listener(type="nodeport"), {}, balancer("x"), True, id="ports-become-balancers"),
    pytest.param(cluster(), {}, cluster({"num.partitions": "3"}), True, id="cluster-config"),
    pytest.param(cluster(), {}, cluster(name="other"), False, id="pool-renamed"),
    pytest.param(cluster(), {}, cluster(nodes=3), True, id="more-nodes"),
    pytest.param(cluster(), {}, cluster(firstNodeId=0), True, id="node-ids-written-down"),
    pytest.param(cluster(firstNodeId=0), {}, cluster(), True, id="node-ids-left-out"),
    pytest.param(cluster(), {}, cluster(roles=["controller", "broker"]), True, id="roles-written-down"),
    pytest.param(cluster(roles=["controller", "broker"]), {}, cluster(), True, id="roles-left-out"),
    pytest.param(cluster(), {}, cluster(storage={"size": "2Gi"}), True, id="storage-grown"),
    pytest.param(cluster(), {}, cluster(storage={"size": "1024Mi"}), True, id="storage-in-other-words"),
    pytest.param(cluster(), {}, cluster(storage={"size": "1023Mi"}), False, id="storage-shrunk"),
    pytest.param(cluster(), {}, cluster(storage={"size": "1G"}), False, id="storage-shrunk-by-its-unit"),
    pytest.param(cluster(), {}, cluster(storage=disks("d1")), True, id="disk-added"),
    pytest.param(cluster(storage=disks("d1")), {}, cluster(storage=disks("d0", "d1")), True, id="second-disk-added"),
    pytest.param(cluster(storage=disks("d1")), {}, cluster(storage=disks("d0")), False, id="disk-renamed"),
    pytest.param(cluster(storage=disks("d1")), {}, cluster(), False, id="disk-removed"),
    pytest.param(cluster(storage=disks("d1")), {}, cluster(storage=disks("d1", size="2Gi")), True, id="disk-grown"),
    pytest.param(cluster(storage=disks("d1")), {}, cluster(storage=disks("d1", size="1Mi")), False, id="disk-shrunk"),
    pytest.param(
        cluster(storage=disks("d1")),
        {},
        cluster(storage=disks("d1", storageClassName="x")),
        False,
        id="disk-of-a-class",
    ),
    pytest.param(
        cluster(), {}, cluster(storage={"size": "1Gi", "storageClassName": "x"}), False, id="storage-class-given"
    ),
]


PASSWORDS: Document = {"type": "scram-sha-512"}
CERTIFICATES: Document = {"type": "tls"}
LISTENER: Document = {"name": "a", "port": 9094}
GIVEN_TWICE: Document = {"clusterCa": {"secretName": "mine"}, "clientsCa": {"secretName": "mine"}}

REJECTED = [
    pytest.param(
        cluster_with(tls={}, listeners=[LISTENER, {**LISTENER, "name": "b"}]),
        "two listeners have the same port",
        id="one-port-for-two",
    ),
    pytest.param(cluster_with(listeners=[LISTENER]), "listeners need spec.tls", id="listeners-in-the-clear"),
    pytest.param(cluster_with(authorization={}), "authorization needs spec.tls", id="authorization-in-the-clear"),
    pytest.param(
        cluster_with(tls={}, authorization={}, config={"super.users": "User:a"}),
        "authorizer.class.name and super.users follow from spec.authorization",
        id="super-users-in-two-places",
    ),
    pytest.param(listener(name="http"), "names of ports that every node has", id="listener-of-a-taken-name"),
    pytest.param(listener(port=9093), "8080, 9091 and 9093 are the nodes' own ports", id="listener-at-a-taken-port"),
    pytest.param(
        listener(authentication=CERTIFICATES), "clients can only present certificates", id="certificates-in-the-clear"
    ),
    pytest.param(
        listener(certificate={"secretName": "mine"}), "a certificate can only be presented", id="certificate-to-nobody"
    ),
    pytest.param(
        listener(tls=True, certificate={}), "from secretName or from issuerRef", id="certificate-from-nowhere"
    ),
    pytest.param(
        listener(tls=True, certificate={"secretName": "mine", "issuerRef": {"name": "i"}}),
        "from secretName or from issuerRef",
        id="certificate-from-both",
    ),
    pytest.param(
        listener(authentication={"type": "oauth", "issuer": "https://i", "audience": "a"}),
        "the type oauth, which needs all three",
        id="tokens-without-keys",
    ),
    pytest.param(
        listener(authentication={**PASSWORDS, "issuer": "https://i"}),
        "the type oauth, which needs all three",
        id="issuer-of-passwords",
    ),
    pytest.param(authority(validityDays=30), "renewalDays must be less than validityDays", id="renewed-at-once"),
    pytest.param(
        authority(secretName="mine", rotation={"revision": "2"}),
        "the authority comes from a Secret",
        id="given-authority-rotated",
    ),
    pytest.param(
        cluster_with(tls=GIVEN_TWICE), "every holder of one is accepted as a node", id="one-authority-for-both"
    ),
    pytest.param(
        cluster({"default.replication.factor": "1", "min.insync.replicas": "2"}),
        "raise default.replication.factor or lower min.insync.replicas",
        id="new-topics-for-nobody",
    ),
    pytest.param(user("tls", userName="u" * 65), "at most 64 characters", id="too-long-common-name"),
    pytest.param(
        user("tls", authentication={"rotation": {"overlapSeconds": 1}}),
        "there is no overlap to choose",
        id="overlap-of-certificates",
    ),
    pytest.param(
        user(secret={"labels": {"ottla.dev/cluster": "demo"}}),
        "labels of ottla.dev are the operator's",
        id="label-of-the-operators",
    ),
]

REJECTED_CHANGES = [
    pytest.param(cluster(), cluster_with(tls={}), "tls cannot be added or removed", id="tls-added"),
    pytest.param(cluster_with(tls={}), cluster(), "tls cannot be added or removed", id="tls-removed"),
    pytest.param(two_pools(), two_pools(roles=["controller"]), "roles cannot be changed", id="a-role-less"),
    pytest.param(
        two_pools(roles=["controller"]), two_pools(), "roles cannot be changed", id="a-role-more-by-leaving-out"
    ),
    pytest.param(two_pools(), two_pools(firstNodeId=9), "node ids cannot be changed", id="other-ids"),
    pytest.param(two_pools(firstNodeId=9), two_pools(), "node ids cannot be changed", id="other-ids-by-leaving-out"),
    pytest.param(two_pools(), cluster(), "a pool cannot be renamed or removed", id="pool-removed"),
]
