"""The charts, rendered by helm; without it nothing that needs it is tried."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]

Document = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Return a function that runs helm from the repository's root."""
    if shutil.which("helm") is None:
        pytest.skip("needs helm")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(("helm", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Callable[..., list[Document]]:
    """Return a function that renders a chart with settings such as ``replicas=1``; ``crds``: with the definitions."""

    def run(chart: str, *settings: str, crds: bool = False) -> list[Document]:
        further = ("crds.enabled=false",) if chart == "ottla-operator" and not crds else ()
        arguments = [argument for setting in (*settings, *further) for argument in ("--set", setting)]
        done = helm("template", "my", f"charts/{chart}", "--namespace", "kafka", *arguments)
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return run
