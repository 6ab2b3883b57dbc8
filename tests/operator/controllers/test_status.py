"""Writing statuses: which versions a write may replace, and conflicts."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.status import StatusWriter
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Reached, Waiting
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
Builder = Callable[..., Document]
Change = Callable[[Document], object]
KEY = ObjectKey("Cluster", "kafka", "demo")
OURS = {"name": "kafka/ours"}
REACHED = ReconcileResult(Reached("AsSpecified", "all is well"), {"bootstrapServers": "demo:9092"})


@pytest.fixture
def statuses(api: Any) -> StatusWriter:
    return StatusWriter(api, lambda: "2026-01-02T00:00:00Z", on_status=lambda document, new: None)


@pytest.fixture
def stored(api: Any, cluster_manifest: Builder) -> Document:
    """Return a Cluster of this operator as stored; changes to it change the stored object."""
    status = {"clusterId": "abc", "operator": OURS}
    there: Document = api.put({**cluster_manifest(), "status": status}, finalizers=["example.com/a"])
    return there


def read(api: Any) -> Document:
    return dict(asyncio.run(api.get(*KEY)))


def changed(stored: Document, change: Change) -> None:
    """Apply ``change`` to the stored object, as another client."""
    change(stored)
    stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)


def repeated_write(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute the next write of a status twice, as after a lost response."""
    apply_status = api.apply_status

    async def twice(document: Document, status: Document) -> Document:
        monkeypatch.undo()
        await apply_status(copy.deepcopy(document), status)
        return dict(await apply_status(document, status))

    monkeypatch.setattr(api, "apply_status", twice)


def test_late_write_replaces_no_newer_status(
    api: Any, statuses: StatusWriter, stored: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Callable[[], Any]] = []
    apply_status = api.apply_status

    async def give_up(document: Document, status: Document) -> Document:
        asked = copy.deepcopy(document)
        late.append(lambda: apply_status(asked, status))
        raise TimeoutError("no answer")

    monkeypatch.setattr(api, "apply_status", give_up)
    with pytest.raises(TimeoutError):
        asyncio.run(statuses.keep(read(api), {"operation": {"node": "demo-main-0"}}))
    monkeypatch.undo()
    asyncio.run(statuses.keep(read(api), {"operation": {"node": "demo-main-1"}}))

    with pytest.raises(ApiError, match="409"):
        asyncio.run(late[0]())
    assert stored["status"]["operation"] == {"node": "demo-main-1"}


def test_pass_writes_several_statuses_each_on_the_last(api: Any, statuses: StatusWriter, stored: Document) -> None:
    document = read(api)
    asyncio.run(statuses.accept(document))
    asyncio.run(statuses.keep(document, {"operation": {"node": "demo-main-0"}}))

    assert asyncio.run(statuses.write(document, REACHED)) is True
    assert asyncio.run(statuses.write(document, REACHED)) is False
    assert document == stored
    assert stored["status"]["operation"] == {"node": "demo-main-0"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda it: it["spec"].update(paused=True) or it["metadata"].update(generation=2), id="asked-more"),
        pytest.param(lambda it: it["metadata"].update(labels={"team": "a"}), id="labelled"),
        pytest.param(lambda it: it["metadata"].update(deletionTimestamp="2026-01-02T00:00:00Z"), id="deleted"),
        pytest.param(lambda it: it["status"].update(operator={**OURS, "challenger": "kafka/other"}), id="challenged"),
    ],
)
def test_status_is_written_over_unrelated_changes(
    api: Any, statuses: StatusWriter, stored: Document, change: Change
) -> None:
    document = read(api)
    changed(stored, change)
    claim = dict(stored["status"]["operator"])

    assert asyncio.run(statuses.write(document, REACHED)) is True
    assert stored["status"]["bootstrapServers"] == "demo:9092"
    assert stored["status"]["observedGeneration"] == 1, "it says what was read, and not what was asked for since"
    assert stored["status"]["operator"] == claim
    assert document["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda it: it["status"].update(operation={"node": "demo-main-2"}), id="said-otherwise"),
        pytest.param(lambda it: it["status"].update(operator={"name": "kafka/other"}), id="taken-over"),
        pytest.param(lambda it: it["metadata"].update(uid="another"), id="made-again"),
        pytest.param(lambda it: it["metadata"].update(finalizers=["example.com/b"]), id="kept-by-others"),
    ],
)
def test_status_computed_from_another_version_is_not_written(
    api: Any, statuses: StatusWriter, stored: Document, change: Change
) -> None:
    document = read(api)
    changed(stored, change)
    before = copy.deepcopy(stored)

    with pytest.raises(ApiError) as raised:
        asyncio.run(statuses.write(document, REACHED))
    assert raised.value.is_conflict
    assert stored == before

    # At the end it was read again.
    asyncio.run(statuses.write(read(api), REACHED))
    assert stored["status"]["bootstrapServers"] == "demo:9092"


def test_status_whose_response_was_lost_counts_as_written(
    api: Any, statuses: StatusWriter, stored: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = read(api)
    repeated_write(api, monkeypatch)

    asyncio.run(statuses.write(document, REACHED))
    assert document == stored
    assert api.writes == ["status Cluster"]


def test_object_deleted_meanwhile_is_left(
    api: Any, statuses: StatusWriter, stored: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = read(api)

    async def reject(document: Document, status: Document) -> Document:
        del api.stored[KEY]
        raise ApiError(409, "Conflict", "it is going")

    monkeypatch.setattr(api, "apply_status", reject)
    with pytest.raises(ApiError, match="it is going"):
        asyncio.run(statuses.write(document, REACHED))


def test_object_that_keeps_changing_is_retried_later(
    api: Any, statuses: StatusWriter, stored: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tries = read(api), []
    apply_status = api.apply_status

    async def too_late(document: Document, status: Document) -> Document:
        tries.append(document)
        changed(stored, lambda it: it["metadata"].update(labels={"tries": str(len(tries))}))
        return dict(await apply_status(document, status))

    monkeypatch.setattr(api, "apply_status", too_late)
    with pytest.raises(ApiError, match="409"):
        asyncio.run(statuses.write(document, ReconcileResult(Waiting("Later", "not yet"), {})))
    assert 2 <= len(tries) <= 10
