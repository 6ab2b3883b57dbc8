"""Users on a local host: apply, get and delete, their folder of files, and a real node with an authorizer."""

import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ottla_operator import local
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.local import ExitCode
from ottla_operator.model.certificates import CertificateIssuer
from ottla_operator.model.node_listeners import STANDARD_AUTHORIZER

Document = dict[str, Any]
Builder = Callable[..., Document]


class Laptop:
    """One state directory and the brokers behind an explicit bootstrap address."""

    def __init__(self, state_dir: Path, brokers: Any) -> None:
        self.state_dir = state_dir
        self.brokers = brokers

    def _common(self) -> Document:
        return {"state_dir": self.state_dir, "bootstrap": "broker:9092", "connect": self.brokers.connect}

    def apply(self, *manifests: Document, **options: Any) -> list[local.Outcome]:
        return local.apply(manifests, **{"timeout_s": 0, **self._common(), **options})

    def get(self, name: str | None = None) -> list[Document]:
        return local.get("users", name, **self._common())

    def delete(self, name: str = "alice", **options: Any) -> local.Outcome:
        return local.delete("ou", name, **{"timeout_s": 0, **self._common(), **options})

    def entry(self, key: str, name: str = "alice") -> str:
        return (self.state_dir / "secrets" / name / key).read_text(encoding="utf-8")


@pytest.fixture
def laptop(tmp_path: Path, brokers: Any) -> Laptop:
    return Laptop(tmp_path / "state", brokers)


def reason(document: Document) -> str:
    (found,) = [it["reason"] for it in document["status"]["conditions"] if it["type"] == "Ready"]
    return str(found)


def test_user_of_a_cluster_elsewhere_connects_to_the_given_address(laptop: Laptop, user_manifest: Builder) -> None:
    now = datetime.now(UTC)
    root = CertificateIssuer().authority("demo", "CA", now=now, days=1).certificate
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": root,
    }

    (outcome,) = laptop.apply(user_manifest(), properties=properties)

    assert outcome.action == "created", outcome.message
    assert laptop.brokers.properties[-1] == properties
    assert (laptop.entry("securityProtocol"), laptop.entry("ca.crt")) == ("SASL_SSL", root)


def test_applied_user_authenticates_with_the_files_of_its_folder(laptop: Laptop, user_manifest: Builder) -> None:
    (outcome,) = laptop.apply(user_manifest())

    assert (outcome.action, outcome.exit_code) == ("created", ExitCode.OK)
    assert laptop.brokers.accepting_mechanisms("alice", laptop.entry("password")) == {2}
    assert laptop.entry("bootstrap-servers") == "broker:9092"
    (stored,) = laptop.get()
    assert reason(stored) == "AsSpecified"
    assert stored["status"]["secret"] == str(laptop.state_dir / "secrets" / "alice")
    mode = (laptop.state_dir / "secrets" / "alice" / "password").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_applying_twice_changes_nothing(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest())
    password, before = laptop.entry("password"), list(laptop.brokers.changes)

    (outcome,) = laptop.apply(user_manifest())

    assert (outcome.action, outcome.steps) == ("unchanged", ())
    assert laptop.brokers.changes == before
    assert laptop.entry("password") == password


def test_dry_run_changes_and_stores_nothing(laptop: Laptop, user_manifest: Builder) -> None:
    (outcome,) = laptop.apply(user_manifest(), dry_run=True)

    assert outcome.action == "planned"
    assert outcome.steps == (
        "give user alice: allow read on topic flights",
        "write secret alice",
        "password of user alice: set SCRAM-SHA-512",
    )
    assert laptop.brokers.changes == []
    assert laptop.get() == []


def test_changed_rules_and_rotation_are_applied(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest())
    before = laptop.entry("password")
    changed = user_manifest(rules=[], authentication={"rotation": {"revision": "2", "overlapSeconds": 600}})

    (outcome,) = laptop.apply(changed)

    assert outcome.action == "configured"
    assert laptop.brokers.acls == set()
    assert laptop.brokers.accepting_mechanisms("alice", laptop.entry("password")) == {1}
    assert laptop.brokers.accepting_mechanisms("alice", before) == {2}


def test_drift_is_seen_by_get_and_corrected_by_apply(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest())
    laptop.brokers.acls.clear()
    (seen,) = laptop.get()

    laptop.apply(user_manifest())

    assert reason(seen) == "OutOfSync"
    assert len(laptop.brokers.acls) == 1


def test_given_password_comes_from_a_folder_beside(laptop: Laptop, user_manifest: Builder) -> None:
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    manifest = user_manifest(authentication={"password": reference})
    (waiting,) = laptop.apply(manifest)
    folder = laptop.state_dir / "secrets" / "mine"
    folder.mkdir(parents=True)
    (folder / "pw").write_text("open sesame")

    (outcome,) = laptop.apply(manifest)

    assert (waiting.reason, waiting.exit_code) == ("PasswordMissing", ExitCode.TIMEOUT)
    assert outcome.exit_code == ExitCode.OK
    assert laptop.brokers.accepting_mechanisms("alice", "open sesame") == {2}


def test_second_user_of_one_name_is_rejected(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest())
    (outcome,) = laptop.apply(user_manifest("bob", userName="alice", rules=[]))

    assert (outcome.reason, outcome.exit_code) == ("UserClaimedElsewhere", ExitCode.ERROR)
    assert len(laptop.brokers.acls) == 1
    assert laptop.delete("bob").action == "deleted"
    assert len(laptop.brokers.acls) == 1
    assert laptop.brokers.accepting_mechanisms("alice", laptop.entry("password")) == {2}


def test_deleted_user_leaves_nothing(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest(quotas={"requestPercentage": 50}))

    outcome = laptop.delete()

    assert (outcome.action, outcome.exit_code) == ("deleted", ExitCode.OK)
    assert (laptop.brokers.acls, laptop.brokers.scram, laptop.brokers.quotas) == (set(), {}, {})
    assert list((laptop.state_dir / "secrets").iterdir()) == []
    assert laptop.get() == []


def test_deletion_waits_for_brokers(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest())
    laptop.brokers.is_reachable = False

    outcome = laptop.delete()

    assert (outcome.reason, outcome.exit_code) == ("BrokerUnreachable", ExitCode.TIMEOUT)
    assert len(laptop.get()) == 1


def test_user_of_no_cluster_at_all_may_go(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.apply(user_manifest())

    assert laptop.delete(bootstrap=None).exit_code == ExitCode.OK
    assert not (laptop.state_dir / "secrets" / "alice").exists()


def test_cluster_without_authorizer_is_reported(laptop: Laptop, user_manifest: Builder) -> None:
    laptop.brokers.has_authorizer = False

    (outcome,) = laptop.apply(user_manifest())

    assert (outcome.action, outcome.reason) == ("refused", "SecurityDisabled")
    assert f"set authorizer.class.name: {STANDARD_AUTHORIZER}" in outcome.message
    assert laptop.brokers.changes == []


def test_super_user_of_the_cluster_here_is_left_alone(
    laptop: Laptop, user_manifest: Builder, cluster_manifest: Builder
) -> None:
    cluster = cluster_manifest(config={"super.users": "User:ANONYMOUS;User:alice"})
    StateDirectory(laptop.state_dir).write({**cluster, "status": {"bootstrapServers": "broker:9092"}})

    (outcome,) = laptop.apply(user_manifest(), bootstrap=None)

    assert (outcome.action, outcome.reason) == ("refused", "PrincipalReserved")
    assert laptop.brokers.changes == []
    assert laptop.delete(bootstrap=None).exit_code == ExitCode.OK
    assert laptop.brokers.changes == []


def test_no_outcome_and_no_stored_object_holds_the_password(
    laptop: Laptop, user_manifest: Builder, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = laptop.apply(user_manifest())
    outcomes += laptop.apply(user_manifest(authentication={"rotation": {"revision": "2"}}))
    password = laptop.entry("password")
    stored = "".join(path.read_text() for path in (laptop.state_dir / "objects").rglob("*.yaml"))
    metadata = (laptop.state_dir / "secrets" / "alice" / ".metadata.json").read_text()

    said = [repr(outcomes), repr(laptop.get()), stored, metadata, caplog.text, *laptop.delete().steps]
    assert password not in "\n".join(said)
