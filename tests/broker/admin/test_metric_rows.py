"""The rows of all packages: dashboards and alerts depend on their names, types and labels."""

from pathlib import Path
from typing import Any

from ottla.admin.exposition import node_metrics
from ottla.admin.metrics import SECTIONS
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.metrics.registry import MetricRow

NAMES = Path(__file__).parent / "metric_names.txt"


def rows() -> list[MetricRow[Any]]:
    return [row for section in SECTIONS for row in section.rows]


def test_names_types_and_labels_of_metrics_do_not_change() -> None:
    """A new metric is a new line of the file; a changed line breaks dashboards and alerts."""
    declared = sorted(" ".join([row.name, row.kind, *sorted(row.labels)]) for row in rows())

    assert declared == NAMES.read_text(encoding="utf-8").splitlines()


def test_page_has_every_row_of_a_combined_node(running: Any) -> None:
    taken: list[NodeSnapshot] = []
    for _ in take_snapshot(running.node, taken):
        pass

    families = [family.name for family in node_metrics(taken[0], loop_delay_s=0)]

    assert families == [row.name.removesuffix("_total") if row.kind == "counter" else row.name for row in rows()]


def test_every_row_has_help_that_is_a_sentence() -> None:
    assert [row.name for row in rows() if not row.help.endswith(".")] == []
