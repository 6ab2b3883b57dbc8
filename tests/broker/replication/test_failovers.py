"""Named scenarios of leaders and followers that fail at the worst moment: nothing committed is lost."""

from typing import Any

import pytest

from ottla.errors import ErrorCode


def test_a_follower_that_restarts_before_it_saw_the_high_watermark_and_then_becomes_leader_loses_nothing(
    pair: Any,
) -> None:
    answers = pair[1].produce(b"a", b"b")
    pair.settle()
    assert answers[0].error_code == 0
    assert pair[2].partition().log.high_watermark == 0

    pair.stop(2, cleanly=True)
    pair.start(2)
    pair.stop(1)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()

    assert pair[2].values() == [b"a", b"b"]
    assert pair[2].partition().log.high_watermark == 2


def test_a_leader_that_dies_with_an_uncommitted_tail_rejoins_truncates_by_epoch_and_ends_identical(pair: Any) -> None:
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


def test_a_tail_longer_than_the_new_leaders_log_is_cut_as_well(pair: Any) -> None:
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


def test_logs_that_parted_in_several_epochs_meet_again_step_by_step(new_cluster: Any) -> None:
    """KIP-279: each knows an epoch that the other does not, so one answer about an end is not enough."""
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


def test_an_unclean_election_loses_records_on_purpose_and_logs_are_equal_again(pair: Any) -> None:
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


def test_a_produce_that_waits_is_told_when_its_leader_is_replaced(pair: Any) -> None:
    pair.cut(1, 2)
    answers = pair[1].produce(b"a")
    pair.controller.change(leader=2)
    pair.settle()

    assert ErrorCode(answers[0].error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_was_away_for_longer_than_the_leader_keeps_records_starts_anew(pair: Any) -> None:
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
def test_a_new_replica_starts_within_a_batch_where_the_leaders_log_does(pair: Any, deleted: int) -> None:
    """Found by the simulator: what is fetched at the log start is the whole batch that holds it, again and again."""
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


@pytest.mark.parametrize("is_alone", [False, True], ids=["not-the-first-batch", "the-only-batch"])
def test_a_replica_with_a_batch_of_an_epoch_that_was_never_led_cuts_it_off(pair: Any, is_alone: bool) -> None:
    """Found by the simulator (seed 5084): a flipped bit; no leader could say where the two logs part."""
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


def test_a_follower_without_a_log_copies_everything(pair: Any) -> None:
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


def test_a_topic_made_anew_under_its_name_is_copied_from_its_beginning(pair: Any) -> None:
    pair[1].produce(b"old")
    pair.settle()
    pair.controller.delete_topic("t")
    pair.controller.create_topic("t", (1, 2))
    pair.settle()
    pair[1].produce(b"new")
    pair.settle()

    assert pair[1].values() == pair[2].values() == [b"new"]


def test_a_topic_made_anew_while_a_replica_was_away_keeps_nothing_of_the_old_one(pair: Any) -> None:
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


def test_a_replica_that_is_taken_away_leaves_nothing_behind(trio: Any) -> None:
    trio[1].produce(b"a")
    trio.settle()
    trio.controller.change(replicas=[1, 2], isr=[1, 2])
    trio.settle()

    assert trio[3].replicas.find("t", 0) is None
    assert len(trio[3].replicas.fetchers) == 0
    answers = trio[1].produce(b"b")
    trio.settle()
    assert answers[0].error_code == 0


def test_a_replica_that_is_added_copies_everything_and_joins(new_cluster: Any) -> None:
    cluster = new_cluster(3)
    cluster.controller.create_topic("t", (1, 2))
    cluster.settle()
    cluster[1].produce(b"a")
    cluster.settle()
    cluster.controller.change(replicas=[1, 2, 3], adding_replicas=[3])
    cluster.run(1_500)

    assert cluster[3].log_bytes() == cluster[1].log_bytes()
    assert cluster.controller.partition().isr == (1, 2, 3)
