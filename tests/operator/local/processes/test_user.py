"""A user on a real node that has an authorizer: created, changed, rotated and deleted."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.client.admin import AdminClient
from ottla.client.admin_security import QuotaEntity
from ottla.wire.acl_codes import Acl
from ottla_operator import local
from ottla_operator.local import ExitCode
from ottla_operator.model.node_listeners import STANDARD_AUTHORIZER

Document = dict[str, Any]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

EXAMPLES = Path(__file__).parents[4] / "examples"
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, free_ports: Callable[..., int]) -> Iterator[Path]:
    """A state directory whose cluster runs, with an authorizer."""
    state_dir = tmp_path_factory.mktemp("cluster")
    document: Document = yaml.safe_load((EXAMPLES / "cluster.yaml").read_text())
    document["metadata"]["annotations"] = {"ottla.dev/local-port": str(free_ports())}
    document["spec"]["config"] |= {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    (outcome,) = local.apply([document], state_dir=state_dir, timeout_s=TIMEOUT_S)
    assert outcome.exit_code == ExitCode.OK, outcome.message
    yield state_dir
    local.down(state_dir=state_dir)


def known_to(bootstrap: str) -> tuple[list[Acl], dict[str, dict[int, int]], dict[QuotaEntity, dict[str, float]]]:
    """Return the node's entries of all users."""

    async def ask() -> tuple[list[Acl], dict[str, dict[int, int]], dict[QuotaEntity, dict[str, float]]]:
        async with AdminClient(bootstrap, client_id="test", request_timeout_s=30) as admin:
            return await admin.describe_acls(), await admin.describe_scram(), await admin.describe_client_quotas()

    return asyncio.run(ask())


def test_example_user_lives_on_a_real_node(running: Path) -> None:
    """From creation through drift and rotation to deletion, as seen in the node's responses."""
    (cluster,) = local.get("cluster", state_dir=running)
    bootstrap = cluster["status"]["bootstrapServers"]
    manifest: Document = yaml.safe_load((EXAMPLES / "user.yaml").read_text())

    def apply() -> local.Outcome:
        (outcome,) = local.apply([manifest], state_dir=running, timeout_s=TIMEOUT_S)
        return outcome

    first, second = apply(), apply()
    acls, scram, quotas = known_to(bootstrap)
    assert (first.action, second.action) == ("created", "unchanged"), (first, second)
    assert {(acl.principal, acl.resource_name, acl.operation.name) for acl in acls} == {
        ("User:alice", "greetings", "READ"),
        ("User:alice", "greetings", "WRITE"),
        ("User:alice", "greetings", "DESCRIBE"),
        ("User:alice", "alice-", "READ"),
    }
    assert list(scram["alice"]) == [2]
    assert quotas == {QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000.0}}
    assert (running / "secrets" / "alice" / "bootstrap-servers").read_text() == bootstrap

    manifest["spec"]["authentication"]["rotation"]["revision"] = "2"
    del manifest["spec"]["quotas"]
    del manifest["spec"]["authorization"]["rules"][1]
    assert apply().action == "configured"
    acls, scram, quotas = known_to(bootstrap)
    assert (len(acls), set(scram["alice"]), quotas) == (3, {1, 2}, {})

    assert local.delete("user", "alice", state_dir=running, timeout_s=TIMEOUT_S).exit_code == ExitCode.OK
    assert known_to(bootstrap) == ([], {}, {})
    assert list((running / "secrets").iterdir()) == []
