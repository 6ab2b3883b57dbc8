"""A test whose main thread never returns from a C library ends the run, with a line that names its place."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent

STUCK = """
import ctypes
import pytest

@pytest.mark.timeout(1)
def test_ends():
    assert True

@pytest.mark.timeout(1)
def test_is_stuck():
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        assert ctypes.CDLL(None).pthread_mutex_lock(mutex) == 0
"""


def test_stuck_test_ends_the_run_and_is_named(tmp_path: Path) -> None:
    stuck = tmp_path / "test_stuck.py"
    stuck.write_text(STUCK)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:randomly", "-p", "no:cacheprovider", str(stuck)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "1 passed" not in done.stdout
    assert "in test_is_stuck" in done.stderr
    assert "Timeout (" in done.stderr
