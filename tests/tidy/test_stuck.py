"""A test whose main thread never returns from a C library ends the run, with a line that names its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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

STUCK_AFTER_A_FAILURE = """
import ctypes
import pytest

@pytest.fixture
def mutex():
    yield
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        assert ctypes.CDLL(None).pthread_mutex_lock(mutex) == 0

@pytest.mark.timeout(1)
def test_fails(mutex):
    assert False
"""


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param(STUCK, "in test_is_stuck", id="test"),
        pytest.param(STUCK_AFTER_A_FAILURE, "in mutex", id="fixture-of-a-failed-test"),
    ],
)
def test_stuck_test_ends_the_run_and_is_named(tmp_path: Path, source: str, place: str) -> None:
    stuck = tmp_path / "test_stuck.py"
    stuck.write_text(source)

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
    assert place in done.stderr
    assert "Timeout (" in done.stderr
