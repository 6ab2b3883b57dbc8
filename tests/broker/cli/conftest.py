"""A node of our own to talk to, and the command line at it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own cluster and settings out of the tests."""
    monkeypatch.setenv("OTTLA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("OTTLA_COMMAND_CONFIG", raising=False)


@pytest.fixture(scope="session")
def node(bound: list[str]) -> Iterator[str]:
    """Return the ``host:port`` of a node that `ottla dev` runs for all tests."""
    command = [*bound, sys.executable, "-m", "ottla", "dev", "--port", "0", "--http-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "Ready in" in line:
                break
        found = re.search(r"Kafka\s+(\S+)", said)
        assert found, f"ottla dev did not become ready: {said}"
        yield found[1]
        os.killpg(process.pid, signal.SIGTERM)
        process.stderr.read()


@pytest.fixture
def ottla(run: Run, node: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command line against `node`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", node)
    return run


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    """Return the name of a fresh topic with three partitions."""
    name = re.sub(r"\W+", "-", f"{request.module.__name__.rpartition('.')[2]}-{request.node.name}")[:200]
    assert ottla("topic", "create", name, "-p", "3").code == 0
    return name
