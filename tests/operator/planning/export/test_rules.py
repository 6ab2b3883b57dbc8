"""Rules for access control entries: each entry is in exactly one rule, or named as left out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.acl_codes import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.errors import ManifestError
from ottla_operator.model import schema
from ottla_operator.model.user import OPERATIONS, RESOURCE_TYPES, User
from ottla_operator.planning.export.exported import Destination
from ottla_operator.planning.export.rules import RULES_MAX, Rules, entry_in_words, rules_of

READ = Acl(ResourceType.TOPIC, "flights", PatternType.LITERAL, "User:bob", "*", Operation.READ, PermissionType.ALLOW)


def admitted(rules: object) -> User:
    spec = {"authentication": {"type": "oauth"}, "authorization": {"rules": rules}}
    return User.parse(schema.admit(Destination(cluster="demo").manifest("User", "bob", spec)))


def test_operations_on_a_resource_are_one_rule_without_defaults() -> None:
    write, other = READ._replace(operation=Operation.WRITE), READ._replace(resource_name="a")

    assert rules_of({write, READ, other}).rules == [
        {"resource": {"type": "topic", "name": "a"}, "operations": ["Read"]},
        {"resource": {"type": "topic", "name": "flights"}, "operations": ["Read", "Write"]},
    ]


def test_what_is_no_default_is_in_the_rule() -> None:
    acl = READ._replace(pattern_type=PatternType.PREFIXED, host="10.0.0.1", permission_type=PermissionType.DENY)

    assert rules_of([acl]).rules == [
        {
            "resource": {"type": "topic", "name": "flights", "patternType": "prefix"},
            "operations": ["Read"],
            "host": "10.0.0.1",
            "type": "deny",
        }
    ]


@pytest.mark.parametrize("kind", RESOURCE_TYPES)
def test_operations_of_a_resource_are_those_of_the_schema(kind: str) -> None:
    name = CLUSTER_NAME if kind == "cluster" else "x"
    resource = {"type": kind} if kind == "cluster" else {"type": kind, "name": name}

    for word, operation in OPERATIONS.items():
        found = rules_of([READ._replace(resource_type=RESOURCE_TYPES[kind], resource_name=name, operation=operation)])
        try:
            admitted([{"resource": resource, "operations": [word]}])
        except ManifestError:
            assert not found.rules, word
        else:
            assert not found.left_out, word


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"resource_type": ResourceType.DELEGATION_TOKEN, "operation": Operation.DESCRIBE}, id="token"),
        pytest.param({"operation": Operation.CREATE_TOKENS}, id="operation"),
        pytest.param({"operation": Operation.UNKNOWN}, id="unknown-operation"),
        pytest.param({"permission_type": PermissionType.UNKNOWN}, id="unknown-permission"),
        pytest.param({"pattern_type": PatternType.UNKNOWN}, id="unknown-pattern"),
        pytest.param({"resource_name": "*", "pattern_type": PatternType.PREFIXED}, id="prefix-of-all"),
        pytest.param({"resource_name": ""}, id="no-name"),
        pytest.param({"resource_type": ResourceType.GROUP, "resource_name": "g" * 250}, id="long-name"),
        pytest.param({"host": "h" * 254}, id="long-host"),
        pytest.param({"resource_type": ResourceType.CLUSTER, "operation": Operation.ALTER}, id="other-cluster"),
    ],
)
def test_entry_that_no_rule_can_have_is_left_out_by_name(change: dict[str, object]) -> None:
    acl = READ._replace(**change)  # type: ignore[arg-type]

    assert rules_of([acl, READ]) == Rules(rules_of([READ]).rules, [acl])


def test_rules_beyond_the_most_are_left_out_by_name() -> None:
    acls = [READ._replace(resource_name=f"t{number:03}") for number in range(RULES_MAX + 1)]

    found = rules_of(acls)

    spec = schema.structural_schema("User")["properties"]["spec"]["properties"]
    assert len(found.rules) == RULES_MAX == spec["authorization"]["properties"]["rules"]["maxItems"]
    assert found.left_out == acls[RULES_MAX:]


def test_entry_in_words_is_that_of_the_command_line() -> None:
    assert entry_in_words(READ) == "allow read on topic flights"
    prefixed = READ._replace(pattern_type=PatternType.PREFIXED, host="h", permission_type=PermissionType.DENY)
    assert entry_in_words(prefixed) == "deny read on topics that begin with flights from h"


ACLS = st.builds(
    Acl,
    st.sampled_from([*ResourceType]),
    st.sampled_from(["*", "y", "a.b", CLUSTER_NAME, "", "two words"]),
    st.sampled_from([*PatternType]),
    st.just("User:bob"),
    st.sampled_from(["*", "10.0.0.1", ""]),
    st.sampled_from([*Operation]),
    st.sampled_from([*PermissionType]),
)


@given(st.sets(ACLS, max_size=12))
@settings(max_examples=40, deadline=None)
def test_every_entry_is_in_a_rule_or_left_out(acls: set[Acl]) -> None:
    found = rules_of(acls)
    user = admitted(found.rules) if found.rules else None

    assert set(found.left_out).isdisjoint(user.acls if user else ())
    assert {*found.left_out, *(user.acls if user else ())} == acls
