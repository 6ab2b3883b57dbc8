"""README's commands for Kubernetes, run as they are there, in a new namespace of kubectl's context.

With OTTLA_WRITE_SCREENS=1 their output is written to docs/screens/kubernetes.txt, which the documentation shows.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
SCREENS = ROOT / "docs" / "screens" / "kubernetes.txt"
TIMEOUT_S = 400


def commands() -> list[str]:
    """Return the lines of the console that README shows after "On Kubernetes", without comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    console = re.search(r"^On Kubernetes .*?```console\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert console is not None
    lines = [line.removeprefix("$ ") for line in console[1].splitlines()]
    return [re.sub(r"\s{2,}#.*", "", line) for line in lines]


@pytest.fixture
def typed(operator: Any, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run the commands before anything is installed; yield the output of each."""
    operator.uninstall()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(Path(os.environ["KUBECONFIG"]).read_text())
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    said = {}
    try:
        for command in commands():
            done = subprocess.run(
                command, shell=True, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            said[command] = done.stdout
        yield said
    finally:
        for left in ("helm uninstall demo --wait", "kubectl delete topics.ottla.dev,users.ottla.dev --all"):
            subprocess.run(left, shell=True, env=environment, cwd=ROOT, check=False)
        subprocess.run("kubectl delete pvc -l ottla.dev/cluster=demo", shell=True, env=environment, check=False)
        operator.install()


def test_kubernetes_commands_of_the_readme_work(typed: dict[str, str]) -> None:
    assert len(typed) == len(commands()) >= 6
    if os.environ.get("OTTLA_WRITE_SCREENS"):
        SCREENS.parent.mkdir(exist_ok=True)
        SCREENS.write_text("\n".join(f"$ {command}\n{said}" for command, said in typed.items()), encoding="utf-8")
    shown = next(out for command, out in typed.items() if command.startswith("kubectl get "))
    for name in ("cluster.ottla.dev/demo", "topic.ottla.dev/greetings", "user.ottla.dev/alice"):
        (line,) = [line for line in shown.splitlines() if line.startswith(name)]
        assert "True" in line.split()
    status = next(out for command, out in typed.items() if "ottla status" in command)
    assert "demo-main-0" in status
    assert next(out for command, out in typed.items() if " consume " in command) == "hello\n"
