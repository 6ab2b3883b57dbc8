"""SCRAM credentials are set, changed and removed, or rejected with Kafka's messages (recorded from Kafka 4.3.1)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.scram import ScramUser, scram_record
from ottla.sasl.scram import ScramCredential, ScramMechanism, salted_password
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

TWICE = "A user credential cannot be altered twice in the same request"


def upsert(name: str = "bob", mechanism: int = 2, iterations: int = 4096) -> ScramCredentialUpsertion:
    salted = salted_password(ScramMechanism.SCRAM_SHA_512, "pencil", b"salt", 4096)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def delete(name: str = "bob", mechanism: int = 2) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(node: Any, *changes: Any) -> list[tuple[str, int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    return [(each.user, each.error_code, each.error_message) for each in node.ask(request).results]


def users(node: Any) -> set[ScramUser]:
    return set(node.image.scram.credentials)


def test_credential_is_set_changed_and_removed(node: Any) -> None:
    assert alter(node, upsert()) == [("bob", ErrorCode.NONE, None)]
    assert alter(node, upsert(iterations=8192), upsert("alice", 1)) == [
        ("bob", ErrorCode.NONE, None),
        ("alice", ErrorCode.NONE, None),
    ]
    assert node.image.scram.credential(ScramMechanism.SCRAM_SHA_512, "bob").iterations == 8192
    assert alter(node, delete()) == [("bob", ErrorCode.NONE, None)]

    assert users(node) == {ScramUser(ScramMechanism.SCRAM_SHA_256, "alice")}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        pytest.param(upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty", id="no-name"),
        pytest.param(
            upsert(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism", id="mechanism"
        ),
        pytest.param(upsert(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations", id="few"),
        pytest.param(upsert(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations", id="many"),
        pytest.param(delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty", id="delete-no-name"),
        pytest.param(
            delete(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism", id="delete-mechanism"
        ),
        pytest.param(
            delete(mechanism=1),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
            id="delete-a-missing-one",
        ),
    ],
)
def test_invalid_change_is_rejected_and_the_others_are_applied(
    node: Any, change: Any, code: ErrorCode, message: str
) -> None:
    responses = alter(node, change, upsert("alice"))

    assert (change.name, code, message) in responses
    assert ("alice", ErrorCode.NONE, None) in responses
    assert users(node) == {ScramUser(ScramMechanism.SCRAM_SHA_512, "alice")}


@pytest.mark.parametrize("iterations", [4096, 16_384])
def test_iterations_at_their_bounds_are_accepted(node: Any, iterations: int) -> None:
    assert alter(node, upsert(iterations=iterations)) == [("bob", ErrorCode.NONE, None)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param([upsert(), upsert(mechanism=1)], TWICE, id="two-mechanisms"),
        pytest.param([delete("known"), upsert("known")], TWICE, id="deleted-and-set"),
        pytest.param([upsert(), upsert(), upsert()], TWICE, id="three-times"),
        pytest.param([upsert(iterations=1), upsert()], "Too few iterations", id="the-first-error-counts"),
    ],
)
def test_user_named_twice_is_not_changed(node: Any, changes: list[Any], message: str) -> None:
    alter(node, upsert("known"))
    responses = alter(node, *changes)

    assert [(user, text) for user, _, text in responses] == [(changes[0].name, message)]
    assert users(node) == {ScramUser(ScramMechanism.SCRAM_SHA_512, "known")}


@pytest.mark.parametrize(("level", "is_supported"), [(10, False), (11, True)])
def test_scram_credentials_need_metadata_version_3_5_iv2(
    new_cluster: Callable[..., Any], level: int, is_supported: bool
) -> None:
    cluster = new_cluster(1, metadata_version=level)
    response = alter(cluster, upsert())

    rejected = ("bob", ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    assert response == [("bob", ErrorCode.NONE, None) if is_supported else rejected]


def test_decoy_secret_is_created_with_the_first_credential_and_stays(node: Any) -> None:
    assert node.image.scram.decoy_secret is None
    alter(node, upsert("", 1), delete("bob"))
    assert node.image.scram.decoy_secret is None

    alter(node, upsert())
    secret = node.image.scram.decoy_secret
    alter(node, upsert("alice"), delete("bob"))
    alter(node, delete("alice"))

    assert len(secret) == 32
    assert node.image.scram.decoy_secret == secret
    assert users(node) == set()


def test_all_controllers_have_the_same_decoys_across_a_failover(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, controllers=2)
    alter(cluster, upsert())
    secret = cluster.image.scram.decoy_secret
    cluster.elect(102)
    alter(cluster, upsert("alice"))

    assert secret
    assert cluster.image.scram.decoy_secret == secret


def test_credentials_without_a_decoy_secret_get_one(new_cluster: Callable[..., Any]) -> None:
    old = scram_record(ScramUser(ScramMechanism.SCRAM_SHA_512, "old"), ScramCredential(b"1", b"2", b"3", 4096))
    cluster = new_cluster(1, first_records=[old])

    assert cluster.image.scram.decoy_secret
