"""A follower copies its leader: every record, every watermark, and whatever becomes of the leader."""

from typing import Any


def test_a_follower_copies_what_the_leader_appends(pair: Any) -> None:
    answers = pair[1].produce(b"a", b"b")
    pair.settle()

    assert answers[0].error_code == 0
    assert pair[2].values() == [b"a", b"b"]
    assert pair[2].log_bytes() == pair[1].log_bytes()


def test_an_append_is_committed_only_once_the_follower_asks_for_what_follows(pair: Any) -> None:
    answers = pair[1].produce(b"a")
    high_watermark_before = pair[1].partition().log.high_watermark
    pair.settle()

    assert high_watermark_before == 0
    assert answers
    assert pair[1].partition().log.high_watermark == 1


def test_a_follower_learns_the_high_watermark_within_one_fetch_wait(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.settle()
    at_once = pair[2].partition().log.high_watermark
    pair.run(500)

    assert at_once == 0
    assert pair[2].partition().log.high_watermark == 1
