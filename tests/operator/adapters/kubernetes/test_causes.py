"""The table of causes in crds/cluster.md has every reason that Kubernetes' state of a pod becomes."""

import re
from pathlib import Path

from ottla_operator.adapters.kubernetes import pod_events, pod_state

PAGE = Path(__file__).parents[4] / "crds" / "cluster.md"
OF_OTHERS = {"Forbidden", "RackMissing", "VolumeLost"}
"""Reasons of racks and claims."""


def test_table_of_causes_has_every_reason_once() -> None:
    section = PAGE.read_text().partition("### Causes of a node that is down\n")[2].partition("\n`status.listeners`")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = [reason for row in rows for reason in re.findall(r"`(\w+)`", row)]

    assert sorted(listed) == sorted(pod_state.REASONS | pod_events.EVENT_REASONS | OF_OTHERS)
