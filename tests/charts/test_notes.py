"""Notes that the cluster chart prints after installation. Needs helm."""

from collections.abc import Callable
from typing import Any

import pytest

Notes = Callable[..., list[str]]


@pytest.fixture
def notes(helm: Any) -> Notes:
    """Return a function that renders the notes with settings such as ``keep=true``, as lines."""

    def run(*settings: str) -> list[str]:
        arguments = [argument for setting in settings for argument in ("--set", setting)]
        done = helm("install", "my", "charts/ottla-cluster", "--dry-run=client", "--namespace", "kafka", *arguments)
        assert done.returncode == 0, done.stderr
        text: str = done.stdout
        return text.partition("NOTES:\n")[2].splitlines()

    return run


def test_only_listeners_inside_are_at_the_service_inside(notes: Notes) -> None:
    inside, outside = (f"cluster.listeners[{number}]" for number in range(2))
    found = notes(
        f"{inside}.name=in",
        f"{inside}.port=9094",
        f"{outside}.name=out",
        f"{outside}.port=9095",
        f"{outside}.type=nodeport",
    )

    assert [line for line in found if "-bootstrap" in line] == ["  my-bootstrap.kafka.svc:9094  (in)"]
    assert "  kubectl -n kafka get cluster.ottla.dev/my -o jsonpath='{.status.listeners}'" in found


def test_notes_without_external_listeners_name_none(notes: Notes) -> None:
    found = notes()

    assert [line for line in found if "-bootstrap" in line] == ["  my-bootstrap.kafka.svc:9094  (clients)"]
    assert not [line for line in found if "outside" in line]


@pytest.mark.parametrize(
    ("settings", "taken"),
    [
        pytest.param((), "removes the pods and keeps the volumes", id="volumes-stay"),
        pytest.param(("cluster.deletionPolicy=Delete",), "removes the pods and the volumes", id="volumes-go"),
        pytest.param(("keep=true", "cluster.deletionPolicy=Delete"), "leaves the Cluster", id="everything-stays"),
    ],
)
def test_notes_end_with_the_objects_that_an_uninstallation_removes(
    notes: Notes, settings: tuple[str, ...], taken: str
) -> None:
    assert notes(*settings)[-1].startswith(f"Uninstalling this release {taken}")
