"""Admission of Users, without an API server: both sides of each edge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.wire.acl_codes import PatternType, PermissionType
from ottla_operator.errors import ManifestError
from ottla_operator.model import schema
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.user import User

Document = dict[str, Any]
Builder = Callable[..., Document]

EXAMPLES = Path(__file__).parents[3] / "examples"
REFERENCE = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}


def rule(kind: str = "topic", *operations: str, **more: Any) -> Document:
    name = {} if kind == "cluster" else {"name": "f"}
    resource = {"type": kind, **name, **more.pop("resource", {})}
    return {"resource": resource, "operations": list(operations or ["Describe"]), **more}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="smallest"),
        *(pytest.param({"type": kind}, id=kind) for kind in ("scram-sha-512", "tls", "tls-external", "oauth")),
        pytest.param({"authentication": {"password": REFERENCE}}, id="given-password"),
        pytest.param(
            {"authentication": {"password": REFERENCE, "rotation": {"overlapSeconds": 60}}}, id="given-with-overlap"
        ),
        pytest.param({"authentication": {"rotation": {"revision": "r" * 63}}}, id="longest-revision"),
        pytest.param({"authentication": {"rotation": {"overlapSeconds": 2_592_000}}}, id="longest-overlap"),
        pytest.param({"type": "tls", "authentication": {"rotation": {"revision": "2"}}}, id="another-certificate"),
        pytest.param({"userName": "u" * 249}, id="longest-name"),
        pytest.param({"type": "tls", "userName": "u" * 64}, id="longest-common-name"),
        pytest.param({"userName": "*a"}, id="star-before-a-name"),
        pytest.param({"userName": "CN=a b,O=c"}, id="spaces-inside"),
        pytest.param({"rules": []}, id="no-rules"),
        pytest.param({"rules": [rule()] * 100}, id="most-rules"),
        pytest.param({"rules": [rule("topic", "DescribeConfigs", "Create")]}, id="topic-operations"),
        pytest.param({"rules": [rule("group", "Read", "Delete")]}, id="group-operations"),
        pytest.param({"rules": [rule("cluster", "IdempotentWrite", "ClusterAction")]}, id="cluster-operations"),
        pytest.param({"rules": [rule("transactionalId", "Write", "TwoPhaseCommit")]}, id="transaction-operations"),
        pytest.param({"rules": [rule(host="10.0.0.1", type="deny")]}, id="deny-from-host"),
        pytest.param({"rules": [rule(resource={"patternType": "prefix"})]}, id="prefix"),
        pytest.param({"quotas": {"producerByteRate": 1, "controllerMutationRate": 0.01}}, id="least-limits"),
        pytest.param({"secret": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, id="template"),
    ],
)
def test_user_is_admitted(user_manifest: Builder, spec: Document) -> None:
    assert User.parse(schema.admit(user_manifest(**spec))).cluster == ObjectKey("Cluster", "", "demo")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"type": "plain"}, "must be one of scram-sha-512", id="unknown-type"),
        pytest.param({"type": "tls", "authentication": {"password": REFERENCE}}, "has a password", id="tls-password"),
        pytest.param({"type": "oauth", "authentication": {"rotation": {}}}, "can be rotated", id="oauth-rotation"),
        pytest.param(
            {"type": "tls", "authentication": {"rotation": {"overlapSeconds": 1}}}, "no overlap", id="tls-overlap"
        ),
        pytest.param({"type": "tls", "userName": "u" * 65}, "at most 64 characters", id="too-long-common-name"),
        pytest.param(
            {"authentication": {"password": REFERENCE, "rotation": {"revision": "2"}}}, "change it there", id="both"
        ),
        pytest.param({"authentication": {"password": {}}}, "'valueFrom' is missing", id="password-from-nowhere"),
        pytest.param({"authentication": {"rotation": {"revision": "r" * 64}}}, "revision", id="too-long-revision"),
        pytest.param({"authentication": {"rotation": {"overlapSeconds": -1}}}, "at least 0", id="negative-overlap"),
        pytest.param({"authentication": {"rotation": {"overlapSeconds": 2_592_001}}}, "at most", id="long-overlap"),
        pytest.param({"userName": ""}, "userName", id="empty-name"),
        pytest.param({"userName": "u" * 250}, "userName", id="too-long-name"),
        pytest.param({"userName": "*"}, "stands for all users", id="all-users"),
        pytest.param({"userName": " a"}, "must match", id="space-first"),
        pytest.param({"userName": "a\nb"}, "must match", id="line-end-in-name"),
        pytest.param({"rules": [rule()] * 101}, "rules", id="too-many-rules"),
        pytest.param({"rules": [rule("topic", "ClusterAction")]}, "topics have no such", id="topic-operation"),
        pytest.param({"rules": [rule("group", "Write")]}, "groups have no such", id="group-operation"),
        pytest.param({"rules": [rule("cluster", "Read")]}, "the cluster has no such", id="cluster-operation"),
        pytest.param({"rules": [rule("transactionalId", "Read")]}, "transactional ids have", id="transaction"),
        pytest.param({"rules": [rule("topic", "read")]}, "must be one of All", id="small-letter"),
        pytest.param({"rules": [rule("user")]}, "must be one of topic", id="unknown-resource"),
        pytest.param({"rules": [{**rule(), "operations": []}]}, "operations", id="no-operations"),
        pytest.param({"rules": [rule("cluster", resource={"name": "x"})]}, "unless it is the cluster", id="named"),
        pytest.param({"rules": [{**rule(), "resource": {"type": "topic"}}]}, "needs a name", id="nameless"),
        pytest.param(
            {"rules": [rule("cluster", resource={"patternType": "prefix"})]}, "have a prefix", id="cluster-prefix"
        ),
        pytest.param({"rules": [rule(type="refuse")]}, "must be one of allow, deny", id="unknown-permission"),
        pytest.param({"quotas": {"producerByteRate": 0}}, "at least 1", id="no-bytes"),
        pytest.param({"quotas": {"controllerMutationRate": 0}}, "at least 0.01", id="no-mutations"),
        pytest.param({"secret": {"annotations": {"ottla.dev/cluster": "demo"}}}, "are the operator's", id="owner"),
        pytest.param({"secret": {"labels": {"ottla.dev/cluster": "demo"}}}, "are the operator's", id="owner-label"),
        pytest.param({"quotas": {"connectionRate": 1}}, "'connectionRate' was unexpected", id="unknown-limit"),
    ],
)
def test_user_is_rejected(user_manifest: Builder, spec: Document, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(user_manifest(**spec))

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        pytest.param({"type": "tls"}, {"type": "oauth"}, "cannot be changed", id="other-type"),
        pytest.param({}, {"userName": "bob"}, "cannot be renamed", id="renamed"),
        pytest.param({"userName": "bob"}, {}, "cannot be renamed", id="renamed-by-leaving-out"),
        pytest.param({}, {"clusterRef": {"name": "x"}}, "cannot move", id="moved"),
    ],
)
def test_change_of_the_users_identity_is_rejected(
    user_manifest: Builder, before: Document, now: Document, said: str
) -> None:
    stored = schema.admit(user_manifest(**before))

    with pytest.raises(ManifestError, match=said):
        schema.admit(user_manifest(**now), stored)


def test_everything_else_may_change(user_manifest: Builder) -> None:
    stored = schema.admit(user_manifest(authentication={"password": REFERENCE}, quotas={"consumerByteRate": 1}))
    changed = user_manifest(rules=[], authentication={"rotation": {"revision": "2"}}, userName="alice")

    assert schema.admit(changed, stored)["spec"]["authorization"]["rules"] == []


def test_what_a_rule_leaves_out_is_kafkas_own_default(user_manifest: Builder) -> None:
    (acl,) = User.parse(schema.admit(user_manifest())).acls

    assert (acl.host, acl.permission_type, acl.pattern_type) == ("*", PermissionType.ALLOW, PatternType.LITERAL)


@pytest.mark.parametrize(
    "password",
    [
        pytest.param("planted", id="text"),
        pytest.param({"value": "planted"}, id="field-of-no-name"),
        pytest.param({"valueFrom": "planted"}, id="text-deeper"),
        pytest.param(["planted"], id="list"),
    ],
)
def test_password_in_a_manifest_is_rejected_and_not_repeated(user_manifest: Builder, password: Any) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(user_manifest(authentication={"password": password}))

    assert "planted" not in str(raised.value)


def test_example_is_admitted() -> None:
    (document,) = yaml.safe_load_all((EXAMPLES / "user.yaml").read_text())

    assert User.parse(schema.admit(document)).principal == "User:alice"
