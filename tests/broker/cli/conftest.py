"""A node, and the command line against it."""

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate the tests from the user's own cluster and settings."""
    monkeypatch.setenv("OTTLA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("OTTLA_COMMAND_CONFIG", raising=False)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Remove the handler of a node's command: its stream ends with the test, and each later line would be an error."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="session")
def running(bound: list[str]) -> Callable[..., AbstractContextManager[str]]:
    """Return a function that runs `ottla` as a process, and yields its stderr up to ``ready``.

    The process is ended with the block.
    """

    @contextmanager
    def run(*arguments: str, ready: str) -> Iterator[str]:
        command = [*bound, sys.executable, "-m", "ottla", *arguments]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stderr is not None
            said = ""
            for line in process.stderr:
                said += line
                if ready in line:
                    break
            else:
                raise AssertionError(f"ottla {' '.join(arguments)} did not become ready: {said}")
            try:
                yield said
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                process.stderr.read()

    return run


@pytest.fixture(scope="session")
def node(running: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """Return the ``host:port`` of a node that `ottla dev` runs for all tests."""
    with running("dev", "--port", "0", "--http-port", "0", ready="Ready in") as said:
        found = re.search(r"Kafka\s+(\S+)", said)
        assert found, said
        yield found[1]


@pytest.fixture
def ottla(run: Run, node: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command line against `node`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", node)
    return run


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    """Return the name of a fresh topic with three partitions."""
    name = re.sub(r"\W+", "-", f"{request.module.__name__.rpartition('.')[2]}-{request.node.name}")[:200]
    assert ottla("topic", "create", name, "-p", "3").code == 0
    return name
