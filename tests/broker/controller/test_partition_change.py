"""The leader after a change, the order of candidates, and the contents of the record."""

from typing import Any

import pytest

from ottla.controller.partition_change import Election, PartitionChange
from ottla.metadata.metadata_version import record_versions
from ottla.metadata.topics import PartitionRegistration
from ottla.types import ZERO_UUID
from ottla.wire.messages.metadata_log import PartitionChangeRecord

VERSIONS = record_versions(30)


def partition(**overrides: Any) -> PartitionRegistration:
    fields: dict[str, Any] = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1, "leader_epoch": 5}
    return PartitionRegistration(**{**fields, "partition_epoch": 7, "directories": (ZERO_UUID,) * 3, **overrides})


def changed(before: PartitionRegistration, *alive: int, **overrides: Any) -> PartitionChangeRecord | None:
    options: dict[str, Any] = {"min_isr": 1, "elr_enabled": True, "default_directory": lambda _: ZERO_UUID}
    change = PartitionChange(
        topic_id=ZERO_UUID,
        partition_id=0,
        partition=before,
        may_lead=lambda broker: broker in alive,
        **{**options, **overrides},
    )
    record = change.to_record(VERSIONS)
    assert record is None or isinstance(record.message, PartitionChangeRecord)
    return None if record is None else record.message


def test_valid_leader_stays() -> None:
    assert changed(partition(leader=2), 1, 2, 3) is None


def test_first_in_sync_replica_in_assignment_order_is_elected() -> None:
    record = changed(partition(), 2, 3, isr=[2, 3])

    assert record is not None
    assert (record.leader, record.isr) == (2, [2, 3])


def test_preferred_election_elects_the_first_replica() -> None:
    record = changed(partition(leader=3), 1, 2, 3, election=Election.PREFERRED)

    assert record is not None
    assert (record.leader, record.isr) == (1, None)


def test_out_of_sync_replica_is_elected_only_by_an_unclean_election() -> None:
    before = partition(isr=(1,), replicas=(1, 2, 3))

    clean = changed(before, 2, 3, isr=[], elr_enabled=False)
    unclean = changed(before, 2, 3, isr=[], elr_enabled=False, election=Election.UNCLEAN)

    assert clean is not None
    assert unclean is not None
    assert (clean.leader, clean.isr, clean.leader_recovery_state) == (-1, None, -1)
    assert (unclean.leader, unclean.isr, unclean.leader_recovery_state) == (2, [2], 1)


def test_replicas_that_leave_below_min_isr_stay_eligible() -> None:
    record = changed(partition(), 1, isr=[1], min_isr=2)

    assert record is not None
    assert (record.isr, record.eligible_leader_replicas) == ([1], [2, 3])


def test_replicas_that_leave_above_min_isr_do_not_stay_eligible() -> None:
    record = changed(partition(), 1, 2, isr=[1, 2], min_isr=2)

    assert record is not None
    assert (record.isr, record.eligible_leader_replicas) == ([1, 2], None)


def test_eligible_replica_is_elected_without_loss() -> None:
    before = partition(isr=(), leader=-1, elr=(2, 3), last_known_elr=(1,))

    record = changed(before, 3, min_isr=2)

    assert record is not None
    assert (record.leader, record.isr, record.leader_recovery_state) == (3, [3], -1)
    assert (record.eligible_leader_replicas, record.last_known_elr) == ([2], [])


def test_replica_that_lost_data_is_not_eligible() -> None:
    before = partition(isr=(), leader=-1, elr=(2, 3))

    record = changed(before, min_isr=2, unclean_shutdown=frozenset({2}))

    assert record is not None
    assert record.eligible_leader_replicas == [3]


@pytest.mark.parametrize(
    ("elr", "last_known", "leader"),
    [
        pytest.param((), (1,), 1, id="no-other-candidate"),
        pytest.param((3,), (1,), None, id="an-eligible-one-may-come-back"),
        pytest.param((), (1, 2), None, id="not-one-leader-but-several"),
    ],
)
def test_last_known_leader_is_elected_without_other_candidates(
    elr: tuple[int, ...], last_known: tuple[int, ...], leader: int | None
) -> None:
    record = changed(partition(isr=(), leader=-1, elr=elr, last_known_elr=last_known), 1, min_isr=2)

    assert (record.leader if record is not None else None) == leader
    if record is not None:
        assert record.leader_recovery_state == 1


def test_last_leader_is_kept_also_with_in_sync_replicas_that_may_not_lead() -> None:
    before = partition(isr=(1, 2), replicas=(1, 2, 3))

    lost = changed(before, isr=[2], min_isr=1)

    assert lost is not None
    assert (lost.leader, lost.isr, lost.last_known_elr) == (-1, [2], [1])
    emptied = changed(before.merge(lost), isr=[], min_isr=1, unclean_shutdown=frozenset({2}))
    assert emptied is not None
    assert (emptied.isr, emptied.eligible_leader_replicas, emptied.last_known_elr) == ([], None, None)
    back = changed(before.merge(lost).merge(emptied), 1, min_isr=1)
    assert back is not None
    assert (back.leader, back.leader_recovery_state, back.last_known_elr) == (1, 1, [])


def test_only_replicas_of_the_partition_stay_eligible_when_a_reassignment_ends() -> None:
    before = partition(replicas=(1, 2, 3), isr=(1, 2, 3), removing_replicas=(2, 3))

    record = changed(before, 1, 2, 3, min_isr=2)

    assert record is not None
    assert (record.replicas, record.isr, record.eligible_leader_replicas) == ([1], [1], None)
