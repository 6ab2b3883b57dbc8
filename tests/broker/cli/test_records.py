"""`ottla produce` and `ottla consume` against a node."""

import json
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture
def filled(ottla: Any, topic: str) -> str:
    """A topic with the values 0 to 9 in partition 1, two seconds after one another."""
    lines = "".join(f"{1_700_000_000_000 + 2_000 * number} {number}\n" for number in range(10))
    assert ottla("produce", topic, "-p", "1", "-f", "%d %v", stdin=lines.encode()).code == 0
    return topic


def consumed(ottla: Any, topic: str, *options: str) -> list[str]:
    ran = ottla("consume", topic, *options)
    assert ran.code == 0, ran.err
    return ran.out.splitlines()


def test_produced_lines_are_consumed(ottla: Any, topic: str) -> None:
    ran = ottla("produce", topic, stdin=b"a\nb\nlast line without an end")

    assert (ran.code, ran.err) == (0, f"3 record(s) produced to {topic}\n")
    assert consumed(ottla, topic, "-O", ":end") == ["a", "b", "last line without an end"]


def test_key_stands_before_the_delimiter(ottla: Any, topic: str) -> None:
    ottla("produce", topic, "-K", "=>", "-H", "trace=1", stdin=b"k=>v=>w\n")

    assert consumed(ottla, topic, "-O", ":end", "-f", "%k|%v|%h\\n") == ["k|v=>w|trace=1"]


def test_offsets_of_produced_records_are_printed_as_json(ottla: Any, topic: str) -> None:
    ran = ottla("produce", topic, "-p", "2", "-o", "json", "-z", "zstd", stdin=b"a\nb\n")

    landed = [json.loads(line) for line in ran.out.splitlines()]
    assert [(record["partition"], record["offset"]) for record in landed] == [(2, 0), (2, 1)]


def test_tombstone_has_a_key_and_no_value(ottla: Any, topic: str) -> None:
    ottla("produce", topic, "-k", "gone", "--tombstone")

    (line,) = consumed(ottla, topic, "-O", ":end", "-o", "json")
    assert (json.loads(line)["key"], json.loads(line)["value"]) == ("gone", None)


def test_tombstone_without_a_key_is_wrong_usage(ottla: Any, topic: str) -> None:
    assert ottla("produce", topic, "--tombstone").code == 2


def test_line_of_another_form_is_named_by_number(ottla: Any, topic: str) -> None:
    ran = ottla("produce", topic, "-K", ":", stdin=b"a:b\nno delimiter\n")

    assert ran.code == 1
    assert "line 2 does not have the form 'KEY:VALUE'" in ran.err


def test_no_create_does_not_create_a_missing_topic(ottla: Any) -> None:
    ran = ottla("produce", "never-made", "--no-create", stdin=b"a\n")

    assert ran.code == 3


def test_missing_topic_is_created_if_brokers_allow_it(ottla: Any) -> None:
    assert ottla("produce", "made-by-produce", stdin=b"a\n").code == 0


@pytest.mark.parametrize(
    ("offset", "values"),
    [
        (":end", range(10)),
        ("3:5", [3, 4]),
        (":2", [0, 1]),
        ("8:end", [8, 9]),
        ("+7:end", [7, 8, 9]),
        ("-2:end", [8, 9]),
        ("-99:end", range(10)),
        ("10:20", []),
        ("@1700000014000:1700000018000", [7, 8]),
        ("@2023-11-14T22:13:36Z:end", [8, 9]),
    ],
)
def test_range_of_offsets(ottla: Any, filled: str, offset: str, values: Any) -> None:
    assert consumed(ottla, filled, "-O", offset) == [str(value) for value in values]


def test_number_of_records_is_limited(ottla: Any, filled: str) -> None:
    assert consumed(ottla, filled, "-n", "3") == ["0", "1", "2"]


def test_other_partitions_are_left_out(ottla: Any, filled: str) -> None:
    assert consumed(ottla, filled, "-p", "0,2", "-O", ":end") == []


def test_missing_partition_is_not_found(ottla: Any, filled: str) -> None:
    ran = ottla("consume", filled, "-p", "7")

    assert (ran.code, "has partitions 0 to 2, not 7" in ran.err) == (3, True)


def test_value_that_is_no_text_becomes_base64(ottla: Any, topic: str) -> None:
    ottla("produce", topic, stdin=b"\xff\xfe\n")

    (line,) = consumed(ottla, topic, "-O", ":end", "-o", "json")
    assert json.loads(line)["value"] == {"base64": "//4="}


def test_group_member_continues_at_committed_offsets(ottla: Any, filled: str) -> None:
    group = f"group-of-{filled}"

    first = consumed(ottla, filled, "-g", group, "-n", "4")
    second = consumed(ottla, filled, "-g", group, "-n", "6")

    assert first + second == [str(value) for value in range(10)]


def test_member_of_a_group_does_not_choose_partitions(ottla: Any, filled: str) -> None:
    assert ottla("consume", filled, "-g", "g", "-p", "1").code == 2


def test_static_member_continues_after_its_restart(ottla: Any, filled: str) -> None:
    options = ("-g", f"group-of-{filled}", "--group-protocol", "consumer", "--instance-id", "reader-1")

    first = consumed(ottla, filled, *options, "-n", "4")
    second = consumed(ottla, filled, *options, "-n", "6")

    assert first + second == [str(value) for value in range(10)]


def test_topics_of_expressions_are_read(ottla: Any, filled: str) -> None:
    options = ("-r", "no-such-.*", "-g", f"group-of-{filled}", "--group-protocol", "consumer")

    assert consumed(ottla, f"{filled[:-1]}.", *options, "-n", "10") == [str(value) for value in range(10)]


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_terminated_member_leaves_its_group(ottla: Any, node: str, filled: str, protocol: str) -> None:
    group = f"{protocol}-group-of-{filled}"[-200:]
    command = ["consume", filled, "-g", group, "--group-protocol", protocol, "-b", node]
    with subprocess.Popen([sys.executable, "-m", "ottla", *command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        joined = next(line for line in process.stderr if f"{filled}-0" in line)
        process.terminate()
        process.wait(30)

    described = json.loads(ottla("group", "describe", group, "-o", "json").out)
    described = described[0] if isinstance(described, list) else described
    assert group in joined
    assert described["members"] == 0


def test_share_group_says_where_it_begins_until_it_has_read(ottla: Any, filled: str) -> None:
    group, hint = f"share-group-of-{filled}", "begins at the end of its topics"
    consume = ("consume", filled, "-g", group, "--group-protocol", "share")

    new = ottla(*consume, "-n", "0")
    ottla("group", "reset", group, filled, "--share", "--to", "start", "--yes")
    known = ottla(*consume, "-n", "10")

    assert (new.code, hint in new.err) == (0, True)
    assert (known.code, hint in known.err) == (0, False)
    assert sorted(map(int, known.out.splitlines())) == list(range(10))


def test_options_of_the_consumer_protocol_need_it(ottla: Any, filled: str) -> None:
    ran = ottla("consume", filled, "-g", "g", "--regex")

    assert (ran.code, "need --group-protocol consumer" in ran.err) == (2, True)


def test_group_protocol_needs_a_group(ottla: Any, filled: str) -> None:
    ran = ottla("consume", filled, "--group-protocol", "consumer")

    assert (ran.code, "--group-protocol needs --group" in ran.err) == (2, True)


def test_missing_topic_is_not_found(ottla: Any) -> None:
    assert ottla("consume", "nope").code == 3


def test_ctrl_c_ends_a_producer_that_waits_for_a_line(ottla: Any, topic: str) -> None:
    terminal, typed = pty.openpty()
    command = [sys.executable, "-m", "ottla", "produce", topic]
    with (
        os.fdopen(terminal),
        os.fdopen(typed) as keyboard,
        subprocess.Popen(command, stdin=keyboard, stderr=subprocess.PIPE, text=True) as producer,
    ):
        assert producer.stderr is not None
        assert producer.stderr.readline() == f"Type a line for each record for {topic}; Ctrl-D ends.\n"
        producer.send_signal(signal.SIGINT)

        assert producer.stderr.read().endswith("interrupted\n")
    assert producer.returncode == 130
