"""Processes that tests start do not outlive them, not even where the tests are killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla_operator.adapters.local.processes import is_running

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = f"""
import importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("conftest", {str(CONFTEST)!r})
conftest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conftest)
print(conftest._launch(["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing here ends a process with its parent")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["sigterm", "sigkill"])
def test_launched_process_ends_with_the_tests(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", TESTS, str(tmp_path / "out")], stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert is_running(pid)
        tests.send_signal(how)

    deadline = time.monotonic() + 30
    while is_running(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            pytest.fail("it was left behind")
        time.sleep(0.01)
