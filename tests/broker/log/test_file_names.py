"""Names of a log's files and directories, as Kafka's tools expect them."""

import pytest

from ottla.log.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    directory_mark,
    marked_directory_name,
    parse_base_offset,
    parse_log_directory,
    segment_path,
)
from ottla.types import TopicPartition


def test_segment_file_name_is_the_base_offset_in_twenty_digits() -> None:
    assert segment_path("/d", 42, ".log") == "/d/00000000000000000042.log"


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        pytest.param("00000000000000000042.log", 42, id="a-segment"),
        pytest.param("00000000000000000042.index", None, id="another-kind"),
        pytest.param("0000000000000000042.log", None, id="nineteen-digits"),
        pytest.param("0000000000000000004x.log", None, id="not-digits"),
        pytest.param("00000000000000000042.log.deleted", None, id="deleted"),
        pytest.param(".log", None, id="no-digits"),
    ],
)
def test_only_segments_have_a_base_offset(name: str, offset: int | None) -> None:
    assert parse_base_offset(name, ".log") == offset


@pytest.mark.parametrize(
    ("name", "log"),
    [
        pytest.param("topic-0", TopicPartition("topic", 0), id="plain"),
        pytest.param("a-b.c_d-12", TopicPartition("a-b.c_d", 12), id="dashes-and-dots-in-the-topic"),
        pytest.param("topic", None, id="no-partition"),
        pytest.param("topic-", None, id="empty-partition"),
        pytest.param("-0", None, id="empty-topic"),
        pytest.param("lost+found", None, id="another-directory"),
        pytest.param(".lock", None, id="a-file"),
    ],
)
def test_log_directory_name_has_the_partition(name: str, log: TopicPartition | None) -> None:
    assert parse_log_directory(name) == log


@pytest.mark.parametrize("mark", ["delete", "stray", "future"])
def test_directory_with_a_suffix_is_recognised(mark: str) -> None:
    assert directory_mark(f"topic-0.0123abc-{mark}") == mark
    assert directory_mark(f"topic-{mark}") is None


def test_topic_name_may_end_like_a_suffix() -> None:
    assert directory_mark("orders-delete-0") is None


def test_marked_directory_name_has_at_most_255_characters() -> None:
    name = marked_directory_name(TopicPartition("t" * 249, 0), "f" * 32, DELETE_DIRECTORY_SUFFIX)

    assert len(name) == 255
    assert directory_mark(name) == "delete"
