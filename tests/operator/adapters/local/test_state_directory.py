"""Objects on disk: whole files, found by kind and name, one command at a time."""

import fcntl
import os
from pathlib import Path

import pytest

from ottla_operator.adapters.local.state_directory import StateDirectory, write_in_one_step
from ottla_operator.errors import OperatorError


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state")


def topic(name: str) -> dict[str, object]:
    return {"kind": "Topic", "metadata": {"name": name}, "spec": {"note": "ü: - #"}}


def test_object_is_read_as_it_was_written(directory: StateDirectory) -> None:
    directory.write(topic("a"))

    assert directory.read("Topic", "a") == topic("a")
    assert directory.read("Cluster", "a") is None
    assert directory.read("Topic", "b") is None


def test_objects_are_listed_by_name(directory: StateDirectory) -> None:
    assert directory.objects("Topic") == []
    for name in ("b", "a", "a.b"):
        directory.write(topic(name))

    assert [it["metadata"]["name"] for it in directory.objects("Topic")] == ["a", "a.b", "b"]


def test_removed_object_is_gone(directory: StateDirectory) -> None:
    directory.write(topic("a"))
    directory.remove("Topic", "a")
    directory.remove("Topic", "a")

    assert directory.objects("Topic") == []


@pytest.mark.parametrize("text", ["a: [", "[]", "kind: Cluster", ""], ids=["not-yaml", "list", "other-kind", "empty"])
def test_corrupt_file_is_named(directory: StateDirectory, text: str) -> None:
    directory.write(topic("a"))
    path = directory.path / "objects" / "topic" / "a.yaml"
    path.write_text(text)

    with pytest.raises(OperatorError, match=r"(?s)a\.yaml .*remove it"):
        directory.read("Topic", "a")


def test_write_leaves_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_in_one_step(path, "one")
    write_in_one_step(path, "two")

    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_lock_is_held_for_the_block_only(directory: StateDirectory) -> None:
    def try_lock() -> bool:
        descriptor = os.open(directory.path / ".lock", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    with directory.locked():
        assert not try_lock()
    assert try_lock()
