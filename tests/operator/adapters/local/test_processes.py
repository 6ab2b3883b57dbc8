"""Processes that outlive their parent's command: found, identified, terminated, and killed if they do not end."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ottla_operator.adapters.local import processes

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
POLITE = "import time; print('polite', flush=True); time.sleep(600)"
WAIT_S = 0.01


def spawn(program: str, log: Path) -> int:
    return processes.spawn([sys.executable, "-c", program], log=log)


def wait_for_output(log: Path) -> None:
    while not log.exists() or not log.read_text():
        time.sleep(WAIT_S)


@pytest.mark.parametrize(
    ("program", "grace_s", "by_itself"), [(POLITE, 60.0, True), (DEAF, 0.1, False)], ids=["polite", "deaf"]
)
def test_process_is_stopped(tmp_path: Path, program: str, grace_s: float, by_itself: bool) -> None:
    pid = spawn(program, tmp_path / "log")
    born = processes.birth(pid)
    wait_for_output(tmp_path / "log")

    async def scenario() -> None:
        assert processes.is_running(pid, born)

        assert await processes.stop(pid, born, grace_s=grace_s) is by_itself
        assert not processes.is_running(pid, born)
        assert await processes.stop(pid, born, grace_s=grace_s) is True

    asyncio.run(scenario())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows zombies")
def test_zombie_of_another_parent_has_ended(tmp_path: Path) -> None:
    # A parent that never collects the exit status of its child, like many a container's first process.
    parent = """
import os, sys, time
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(child, flush=True)
time.sleep(600)
"""
    pid = spawn(parent, tmp_path / "log")
    wait_for_output(tmp_path / "log")
    zombie = int((tmp_path / "log").read_text())

    async def scenario() -> None:
        assert not processes.is_running(zombie, processes.birth(zombie))
        assert not processes.is_running(zombie)
        assert await processes.stop(zombie, processes.birth(zombie), grace_s=60) is True
        await processes.stop(pid, processes.birth(pid), grace_s=60)

    asyncio.run(scenario())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows zombies")
def test_child_that_ends_while_it_is_looked_for_leaves_no_zombie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = spawn(POLITE, tmp_path / "log")
    send = os.kill

    def kill_and_wait(target: int, number: int) -> None:
        send(target, number or signal.SIGKILL)
        os.waitid(os.P_PID, target, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(os, "kill", kill_and_wait)

    assert not processes.is_running(pid)
    with pytest.raises(ProcessLookupError):
        send(pid, 0)


def test_process_with_another_birth_is_another_process() -> None:
    me = os.getpid()

    assert processes.is_running(me, processes.birth(me))
    assert not processes.is_running(me, "0")


def test_child_has_a_session_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        pid = spawn(POLITE, tmp_path / "log")
        assert os.getsid(pid) == pid
        await processes.stop(pid, processes.birth(pid), grace_s=60)

    asyncio.run(scenario())


def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    pid = spawn("import sys; print('out', flush=True); sys.exit('err')", log)
    os.waitpid(pid, 0)

    assert log.read_text().splitlines() == ["before", "out", "err"]


def test_environment_can_be_given(tmp_path: Path) -> None:
    pid = processes.spawn(
        [sys.executable, "-c", "import os; print(os.environ['GREETING'])"],
        log=tmp_path / "log",
        environment={"GREETING": "hello"},
    )
    os.waitpid(pid, 0)

    assert (tmp_path / "log").read_text() == "hello\n"


def test_run_returns_exit_code_and_output() -> None:
    program = "import sys; print('out', flush=True); sys.exit('trouble')"

    assert asyncio.run(processes.run([sys.executable, "-c", program])) == (1, "out\ntrouble\n")


def test_program_does_not_outlive_its_caller(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"import os, time; open({str(log)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    async def scenario() -> None:
        waiting = asyncio.create_task(processes.run([sys.executable, "-c", program]))
        await asyncio.to_thread(wait_for_output, log)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())

    assert not processes.is_running(int(log.read_text()))
