"""Named scenarios of leaders and followers that fail at the worst moment: nothing committed is lost."""

from typing import Any

import pytest

from ottla.errors import ErrorCode


def test_follower_elected_after_a_restart_without_the_high_watermark_loses_nothing(
    pair: Any,
) -> None:
    responses = pair[1].produce(b"a", b"b")
    pair.settle()
    assert responses[0].error_code == 0
    assert pair[2].partition().log.high_watermark == 0

    pair.stop(2, cleanly=True)
    pair.start(2)
    pair.stop(1)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()

    assert pair[2].values() == [b"a", b"b"]
    assert pair[2].partition().log.high_watermark == 2


def test_failed_leader_with_an_uncommitted_tail_truncates_by_epoch(pair: Any) -> None:
    pair[1].produce(b"committed")
    pair.run(600)
    pair.cut(1, 2)
    pair[1].produce(b"lost tail 1", acks=1)
    pair[1].produce(b"lost tail 2", acks=1)
    pair.stop(1)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()
    pair[2].produce(b"new 1")
    pair[2].produce(b"new 2")
    pair[2].produce(b"new 3")

    pair.heal()
    pair.start(1)
    pair.run(2_000)

    assert pair[2].values() == [b"committed", b"new 1", b"new 2", b"new 3"]
    assert pair[1].log_bytes() == pair[2].log_bytes()
    assert pair.controller.partition().isr == (2, 1)
    assert [batch.leader_epoch for batch in pair[1].batches()] == [0, 1, 1, 1]


def test_tail_longer_than_the_new_leader_s_log_is_truncated(pair: Any) -> None:
    pair[1].produce(b"committed")
    pair.run(600)
    pair.cut(1, 2)
    for number in range(5):
        pair[1].produce(b"lost %d" % number, acks=1)
    pair.stop(1)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()
    pair[2].produce(b"new")

    pair.heal()
    pair.start(1)
    pair.run(2_000)

    assert pair[1].values() == [b"committed", b"new"]
    assert pair[1].log_bytes() == pair[2].log_bytes()


def test_logs_that_diverged_in_several_epochs_converge_step_by_step(new_cluster: Any) -> None:
    """KIP-279: each has an epoch that the other does not have, so one end offset is not enough."""
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", (1, 2))
    cluster.settle()
    cluster[1].produce(b"common")
    cluster.run(600)
    cluster.cut(1, 2)
    cluster[1].produce(b"epoch 0 of node 1", acks=1)
    for leader in (2, 1, 2):
        other = 3 - leader
        cluster.stop(other)
        cluster.controller.change(leader=leader, isr=[leader])
        cluster.settle()
        cluster[leader].produce(b"of node %d" % leader, acks=1)
        cluster.start(other)

    cluster.heal()
    cluster.run(3_000)

    assert cluster[1].log_bytes() == cluster[2].log_bytes()
    assert [batch.leader_epoch for batch in cluster[1].batches()] == [0, 1, 3]


def test_unclean_election_loses_records_and_logs_converge(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.run(600)
    pair.cut(1, 2)
    pair.controller.fence(2)
    pair.controller.change(isr=[1])
    pair.settle()
    pair[1].produce(b"only on node 1")
    pair.settle()
    assert pair[1].partition().log.high_watermark == 2
    pair.stop(1)
    pair.controller.unfence(2)
    pair.controller.change(leader=2, isr=[2], leader_recovery_state=1)
    pair.settle()
    pair[2].produce(b"b")

    pair.heal()
    pair.start(1)
    pair.run(2_000)

    assert pair[1].values() == pair[2].values() == [b"a", b"b"]
    assert pair[1].log_bytes() == pair[2].log_bytes()


def test_waiting_produce_fails_when_its_leader_is_replaced(pair: Any) -> None:
    pair.cut(1, 2)
    responses = pair[1].produce(b"a")
    pair.controller.change(leader=2)
    pair.settle()

    assert ErrorCode(responses[0].error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_below_the_leader_s_log_start_restarts_there(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.settle()
    pair.stop(2, cleanly=True)
    pair.controller.fence(2)
    pair.controller.change(isr=[1])
    pair.settle()
    for number in range(3):
        pair[1].produce(b"%d" % number)
    pair[1].partition().log.delete_records_before(3)

    pair.start(2)
    pair.run(1_500)

    assert pair[2].partition().log.log_start_offset == 3
    assert pair[2].values() == [b"2"]
    assert pair.controller.partition().isr == (1, 2)


@pytest.mark.parametrize("deleted", [1, 2], ids=lambda offset: f"deleted-to-{offset}")
def test_new_replica_starts_at_the_leader_s_log_start_within_a_batch(pair: Any, deleted: int) -> None:
    """Found by the simulator: a fetch at the log start returns the whole batch that holds it, repeatedly."""
    pair.settle()
    pair.stop(2)
    pair.controller.fence(2)
    pair.controller.change(isr=[1])
    for path in [path for path in pair[2].disk.paths() if "/t-0/" in path]:
        pair[2].disk.remove(path)
    pair.settle()
    pair[1].produce(b"a", b"b", b"c", acks=1)
    pair[1].partition().log.delete_records_before(deleted)

    pair.start(2)
    pair.run(1_500)

    log = pair[2].partition().log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (deleted, 3, 3)
    assert pair[2].log_bytes() == pair[1].log_bytes()
    assert pair.controller.partition().isr == (1, 2)


def test_diverged_replica_continues_at_the_leader_s_log_start_within_a_batch(pair: Any) -> None:
    """Seed 1784 at commit 071a21be: what it has is below the leader's log start, and each fetch returned the batch."""
    pair.settle()
    pair.cut(1, 2)
    for number in range(5):
        pair[1].produce(b"lost %d" % number, acks=1)
    pair.stop(1, cleanly=True)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()
    pair[2].produce(b"a", b"b", b"c")
    pair[2].produce(b"d", b"e", b"f")
    pair[2].partition().log.delete_records_before(4)

    pair.heal()
    pair.start(1)
    pair.run(1_500)

    log = pair[1].partition().log
    assert (log.log_start_offset, log.log_end_offset) == (4, 6)
    assert [batch.base_offset for batch in pair[1].batches()] == [3]
    assert pair.controller.partition().isr == (2, 1)


@pytest.mark.parametrize("is_alone", [False, True], ids=["not-the-first-batch", "the-only-batch"])
def test_replica_truncates_a_batch_of_an_epoch_without_a_leader(pair: Any, is_alone: bool) -> None:
    """Found by the simulator (seed 5084): a flipped bit; no leader knew the point where the two logs diverge."""
    if not is_alone:
        pair[1].produce(b"a")
    pair[1].produce(b"b")
    pair.settle()
    pair.stop(2)
    path = next(path for path in pair[2].disk.paths() if path.endswith("/t-0/00000000000000000000.log"))
    # The batches are of one size.
    at = 0 if is_alone else len(pair[2].disk.contents(path)) // 2
    pair[2].disk.corrupt(path, at + 13, b"\x40")

    pair.start(2)
    pair.run(1_500)

    assert pair[2].log_bytes() == pair[1].log_bytes()
    assert pair.controller.partition().isr == (1, 2)


def test_follower_without_a_log_copies_the_whole_log(pair: Any) -> None:
    pair[1].produce(b"a")
    pair[1].produce(b"b")
    pair.settle()
    pair.stop(2)
    pair.controller.change(isr=[1])
    for path in [path for path in pair[2].disk.paths() if "/t-0/" in path]:
        pair[2].disk.remove(path)

    pair.start(2)
    pair.run(1_500)

    assert pair[2].log_bytes() == pair[1].log_bytes()
    assert pair.controller.partition().isr == (1, 2)


def test_recreated_topic_is_copied_from_its_start(pair: Any) -> None:
    pair[1].produce(b"old")
    pair.settle()
    pair.controller.delete_topic("t")
    pair.controller.create_topic("t", (1, 2))
    pair.settle()
    pair[1].produce(b"new")
    pair.settle()

    assert pair[1].values() == pair[2].values() == [b"new"]


def test_topic_recreated_while_a_replica_was_down_keeps_no_old_records(pair: Any) -> None:
    pair[1].produce(b"old")
    pair.settle()
    pair.stop(2, cleanly=True)
    pair.controller.delete_topic("t")
    pair.controller.create_topic("t", (1, 2), isr=(1,))
    pair.settle()
    pair[1].produce(b"new")

    pair.start(2)
    pair.run(1_500)

    assert pair[2].values() == [b"new"]


def test_removed_replica_leaves_no_log(trio: Any) -> None:
    trio[1].produce(b"a")
    trio.settle()
    trio.controller.change(replicas=[1, 2], isr=[1, 2])
    trio.settle()

    assert trio[3].replicas.find("t", 0) is None
    assert len(trio[3].replicas.fetchers) == 0
    responses = trio[1].produce(b"b")
    trio.settle()
    assert responses[0].error_code == 0


def test_added_replica_copies_everything_and_joins_the_isr(new_cluster: Any) -> None:
    cluster = new_cluster(3)
    cluster.controller.create_topic("t", (1, 2))
    cluster.settle()
    cluster[1].produce(b"a")
    cluster.settle()
    cluster.controller.change(replicas=[1, 2, 3], adding_replicas=[3])
    cluster.run(1_500)

    assert cluster[3].log_bytes() == cluster[1].log_bytes()
    assert cluster.controller.partition().isr == (1, 2, 3)
