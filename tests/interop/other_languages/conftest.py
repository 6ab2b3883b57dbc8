"""Clients in JavaScript and Go, as programs with the same commands: kafkajs, @platformatic/kafka and franz-go.

npm and the go command install what the programs need, of pinned versions, into their own caches, and verify it with
the lock files.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.config.resource_type import ConfigResourceType

HERE = Path(__file__).parent
INSTALL_WITHIN_S = 240
RUN_WITHIN_S = 90
CLEANER_BACKOFF = "log.cleaner.backoff.ms"


@dataclass(kw_only=True)
class Program:
    """A client: its command line, before the bootstrap servers."""

    command: list[str]
    bootstrap: str
    output: Path
    bound: list[str]
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def run(self, operation: str, **arguments: object) -> Any:
        """Run one operation to its end; return its result."""
        done = subprocess.run(self._command(operation, arguments), capture_output=True, text=True, timeout=RUN_WITHIN_S)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, operation: str, **arguments: object) -> None:
        """Start an operation that has no end."""
        command = self._command(operation, arguments)
        with self.output.open("ab") as output:
            self.running.append(subprocess.Popen(command, stdout=output, stderr=output))

    def kill(self) -> None:
        """Kill what `start` has started last; fail if it has ended by itself."""
        process = self.running.pop()
        assert process.poll() is None, self.output.read_text()[-4000:]
        process.kill()
        process.wait()

    def _command(self, operation: str, arguments: dict[str, object]) -> list[str]:
        return [*self.bound, *self.command, self.bootstrap, operation, json.dumps(arguments)]


def install(command: list[str], directory: Path, **environment: str) -> None:
    """Run a package manager; skip the test if it is missing, or cannot install the packages."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on the path")
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_WITHIN_S,
    )
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command)} failed: {done.stdout[-1000:]}")


def install_node_program(name: str, directory: Path) -> list[str]:
    """Install what a program in JavaScript needs beside a copy of it; return the command that runs it."""
    shutil.copytree(HERE / name, directory, dirs_exist_ok=True)
    flags = ["--ignore-scripts", "--omit=optional", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=1"]
    install(["npm", "ci", *flags], directory)
    return ["node", str(directory / "client.mjs")]


@pytest.fixture(scope="session")
def kafkajs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the program that uses kafkajs."""
    return install_node_program("kafkajs", tmp_path_factory.mktemp("kafkajs"))


@pytest.fixture(scope="session")
def platformatic(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the program that uses @platformatic/kafka."""
    return install_node_program("platformatic", tmp_path_factory.mktemp("platformatic"))


@pytest.fixture(scope="session")
def franz_go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the program in Go, which is compiled here."""
    # Another toolchain than the one that is there must not be downloaded.
    environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    install(["go", "mod", "download"], HERE / "franz_go", **environment)
    program = tmp_path_factory.mktemp("franz-go") / "client"
    compiled = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=HERE / "franz_go",
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=INSTALL_WITHIN_S,
    )
    assert compiled.returncode == 0, compiled.stderr
    return [str(program)]


@pytest.fixture
def new_program(broker: Any, bound: list[str], tmp_path: Path) -> Iterator[Callable[[list[str]], Program]]:
    """Return a function that creates the program of a command; what it has left running ends with the test."""
    created: list[Program] = []

    def create(command: list[str]) -> Program:
        program = Program(command=command, bootstrap=broker.bootstrap, output=tmp_path / "client.out", bound=bound)
        created.append(program)
        return program

    yield create
    for process in (process for program in created for process in program.running):
        process.kill()
        process.wait()


@pytest.fixture(params=["kafkajs", "franz_go"])
def client(request: pytest.FixtureRequest, new_program: Callable[[list[str]], Program]) -> Program:
    """Each of the programs that have every operation, for the shared node."""
    return new_program(request.getfixturevalue(request.param))


@pytest.fixture(params=["platformatic", "franz_go"])
def consumer_protocol_client(request: pytest.FixtureRequest, new_program: Callable[[list[str]], Program]) -> Program:
    """Each of the programs whose members speak the consumer protocol, which kafkajs does not have."""
    return new_program(request.getfixturevalue(request.param))


@pytest.fixture
def share_client(franz_go: list[str], new_program: Callable[[list[str]], Program]) -> Program:
    """The program in Go, which alone has share groups."""
    return new_program(franz_go)


@pytest.fixture
def compacted(broker: Any, new_topic: Callable[..., str]) -> Iterator[str]:
    """Return a compacted topic, whose node checks several times per second whether there is something to clean."""

    async def alter(**changes: Any) -> None:
        async with AdminClient(broker.bootstrap) as admin:
            await admin.alter_configs(ConfigResourceType.BROKER, "", **changes)

    asyncio.run(alter(upserts={CLEANER_BACKOFF: "200"}))
    yield new_topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms=10)
    asyncio.run(alter(deletions=[CLEANER_BACKOFF]))
