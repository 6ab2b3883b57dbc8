"""A Cluster in the overlap of two authorities is ready and not in progress, and is reconciled again at its end."""

from dataclasses import replace

import pytest
from driven_operator import THREE, Change, Operator, begin
from simulated_cluster import SimulatedCluster

from ottla_operator.controllers.cluster.certificates import CertificateResult
from ottla_operator.controllers.cluster.observation import ClusterObserver
from ottla_operator.model.conditions import AUTHORITY_CHANGING, AUTHORITY_OVERLAP, Underway, Waiting
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.observed_cluster import ObservedCluster

END = "2026-01-01T01:00:00Z"
GROWING = Underway("VolumesGrowing", "a volume grows")


@pytest.fixture
def operator() -> Operator:
    return begin(SimulatedCluster(), Change(THREE, THREE, ()))


def certificates(monkeypatch: pytest.MonkeyPatch, reason: str, wake_at: str = "") -> None:
    """Let the certificates have an obstacle."""

    async def kept(*_: object) -> CertificateResult:
        return CertificateResult(obstacle=Waiting(reason, "said"), wake_at=wake_at)

    monkeypatch.setattr(ClusterObserver, "_certificates", kept)


@pytest.mark.parametrize(
    ("reason", "is_progressing"), [(AUTHORITY_CHANGING, "True"), (AUTHORITY_OVERLAP, "False")], ids=["changes", "waits"]
)
def test_only_a_phase_with_work_left_is_progress(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, reason: str, is_progressing: str
) -> None:
    certificates(monkeypatch, reason, END)

    result = operator.one_pass()

    said = {it["type"]: it for it in operator.document["status"]["conditions"]}
    assert (said["Ready"]["status"], said["Ready"]["reason"], said["Ready"]["message"]) == ("True", reason, "said")
    assert said["Progressing"]["status"] == is_progressing
    assert ("Reconciling" in said) == (is_progressing == "True")
    assert result.wake_at == END


def test_volume_that_grows_is_reported_before_an_overlap(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates(monkeypatch, AUTHORITY_OVERLAP, END)
    observe = operator.world.observe

    async def growing(desired: DesiredCluster) -> ObservedCluster:
        return replace(await observe(desired), storage=GROWING)

    monkeypatch.setattr(operator.world, "observe", growing)

    assert operator.one_pass().readiness == GROWING
