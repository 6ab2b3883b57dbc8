"""`tests/e2e/run`: its choice of a cluster, its use of kind, and its report of missing tools.

Tools are stand-ins that write down how they were called.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

E2E = Path(__file__).parents[1] / "e2e"
TOOLS = ("docker", "helm", "kind", "kubectl")
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $* KUBECONFIG=${KUBECONFIG:+set}" >> "$CALLS"
case "$0 $*" in
  */python*"not alone"*) exit "${TOGETHER_EXIT:-0}" ;;
  */python*) exit "${ALONE_EXIT:-0}" ;;
esac
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with nothing but the script, its configuration and a Python that runs no tests."""
    (tmp_path / "tests" / "e2e").mkdir(parents=True)
    for name in ("run", "kind.yaml"):
        shutil.copy(E2E / name, tmp_path / "tests" / "e2e" / name)
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("basename", "bash", "dirname", "env", "mktemp", "rm", "sh"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    for stand_in in (*(tmp_path / "bin" / tool for tool in TOOLS), tmp_path / ".venv" / "bin" / "python"):
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
    return tmp_path


@pytest.fixture
def run(repository: Path) -> Callable[..., tuple[int, str, list[str]]]:
    """Return a function that calls the script, and returns exit code, errors, and the calls of tools."""
    calls = repository / "calls"

    def call(*arguments: str, **environment: str) -> tuple[int, str, list[str]]:
        calls.write_text("")
        done = subprocess.run(
            (repository / "tests" / "e2e" / "run", *arguments),
            env={"PATH": str(repository / "bin"), "CALLS": str(calls), "TMPDIR": str(repository), **environment},
            capture_output=True,
            text=True,
            check=False,
            cwd=os.sep,
        )
        return done.returncode, done.stderr, calls.read_text().splitlines()

    return call


def image(name: str) -> list[str]:
    return [
        f"docker build -q -f images/{name.partition('/')[2].partition(':')[0]}/Dockerfile -t {name} . KUBECONFIG=set",
        f"kind load docker-image --name ottla-e2e {name} KUBECONFIG=set",
    ]


def calls_of_pytest(path: str, *arguments: str) -> list[str]:
    """Return the calls that run the tests: most of them two at a time, then those that disturb others."""
    rest = " ".join([*arguments, "KUBECONFIG=set"])
    return [
        f"python -m pytest -m e2e and not alone -p no:randomly {path}-n 2 --dist loadfile {rest}",
        f"python -m pytest -m e2e and alone -p no:randomly {path}{rest}",
    ]


@pytest.mark.parametrize("tests_exit", [0, 3])
def test_kind_cluster_is_created_and_removed_for_any_test_result(
    run: Callable[..., tuple[int, str, list[str]]], repository: Path, tests_exit: int
) -> None:
    code, _, calls = run("-k", "users", TOGETHER_EXIT=str(tests_exit))

    assert code == tests_exit
    assert calls == [
        "kind create cluster --name ottla-e2e --config tests/e2e/kind.yaml --wait 120s KUBECONFIG=set",
        *image("ottla/operator:0.1.0"),
        *image("ottla/broker:0.1.0"),
        *image("ottla/spark:dev"),
        *calls_of_pytest("tests/e2e ", "-k", "users"),
        "kind delete cluster --name ottla-e2e KUBECONFIG=set",
    ]
    assert not list(repository.glob("tmp.*")), "its KUBECONFIG is gone"


@pytest.mark.parametrize("tool", TOOLS)
def test_missing_tools_are_reported(
    run: Callable[..., tuple[int, str, list[str]]], repository: Path, tool: str
) -> None:
    (repository / "bin" / tool).unlink()

    code, errors, calls = run()

    assert (code, calls) == (1, [])
    assert errors.startswith(f"end-to-end tests need {tool}: https://")


def test_existing_cluster_is_left_unchanged(run: Callable[..., tuple[int, str, list[str]]], repository: Path) -> None:
    (repository / "bin" / "kind").unlink()

    code, errors, calls = run(KUBECONFIG="mine")
    assert (code, calls) == (1, [])
    assert "OTTLA_E2E_BUILD_IMAGE" in errors

    code, _, calls = run("tests/e2e/test_users.py", KUBECONFIG="mine", OTTLA_E2E_SKIP_BUILD="1")
    assert code == 0
    assert calls == calls_of_pytest("", "tests/e2e/test_users.py")


@pytest.mark.parametrize(
    ("together", "alone", "expected"),
    [(0, 0, 0), (3, 0, 3), (0, 3, 3), (5, 0, 0), (0, 5, 0), (5, 3, 3), (3, 5, 3), (1, 2, 1), (5, 5, 5)],
)
def test_result_is_that_of_both_runs_of_which_one_may_select_no_test(
    run: Callable[..., tuple[int, str, list[str]]], together: int, alone: int, expected: int
) -> None:
    code, _, _ = run(KUBECONFIG="mine", OTTLA_E2E_SKIP_BUILD="1", TOGETHER_EXIT=str(together), ALONE_EXIT=str(alone))

    assert code == expected


def test_cluster_of_kind_has_three_machines_in_three_zones() -> None:
    machines = [it for it in yaml.safe_load((E2E / "kind.yaml").read_text())["nodes"] if it["role"] == "worker"]

    assert len({it["labels"]["topology.kubernetes.io/zone"] for it in machines}) == len(machines) == 3
