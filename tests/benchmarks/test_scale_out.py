"""The curves and the table of `benchmarks.scale_out`, and its reading of metrics and of control groups."""

import pytest
from benchmarks import cpu_quota, scale_out


def run(nodes: int, figures: dict[str, float], *, system: str = "ottla", config: str = "") -> scale_out.Run:
    return {"system": system, "nodes": nodes, "config": config, "quota": 0.5, "figures": figures}


def test_fit_finds_the_coefficients_of_a_polynomial() -> None:
    points = [(x, 2 + 3 * x + 0.5 * x * x) for x in (1, 3, 6, 12, 24)]

    curve = scale_out.fit(points, 2)

    assert curve == pytest.approx([2, 3, 0.5])
    assert scale_out.value_at(curve, 48) == pytest.approx(2 + 3 * 48 + 0.5 * 48 * 48)


def test_fit_minimizes_the_squared_errors() -> None:
    assert scale_out.fit([(0, 0), (1, 2), (2, 1)], 1) == pytest.approx([0.5, 0.5])


def test_table_has_the_lowest_of_all_runs_by_system_size_and_config() -> None:
    runs = [
        run(24, {"CPU": 7.0}),
        run(3, {"CPU": 3.0}),
        run(3, {"CPU": 2.5, "memory": 1024.0}),
        run(3, {"CPU": 9.0}, system="kafka"),
        run(24, {"CPU": 4.0}, config="replica.fetch.wait.max.ms=2000"),
    ]

    assert scale_out.table(runs).splitlines() == [
        "| | Ottla x 3 | Ottla x 24 | Ottla x 24, replica.fetch.wait.max.ms=2000 | JVM Kafka x 3 |",
        "|-|-:|-:|-:|-:|",
        "| CPU | 2.50 | 7.00 | 4.00 | 9.00 |",
        "| memory | 1,024.00 | - | - | - |",
    ]


def test_fits_compare_larger_clusters_with_their_prediction() -> None:
    name = "at rest, 1000 partitions: requests/s"
    runs = [run(nodes, {name: 2.0 * nodes * (nodes - 1)}) for nodes in (1, 3, 6, 12, 24)]
    runs += [run(48, {name: 4500.0}), run(24, {name: 1.0}, config="a=b"), run(3, {name: 1.0}, system="kafka")]

    row = scale_out.fits(runs).splitlines()[-1]

    assert "- 2.0000 N + 2.0000 N²" in row
    assert row.endswith("| 48: 4,500.00 (4,512.00) |")


def test_requests_are_summed_over_versions() -> None:
    page = (
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="17"} 3.0\n'
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="18"} 4.0\n'
        'kafka_network_requestmetrics_requestbytes_sum{request="Fetch"} 100.0\n'
        'ottla_response_bytes_total{request="Fetch"} 11.0\n'
    )

    assert scale_out.requests_of(page) == {"Fetch": 7}
    assert scale_out.sum_of(scale_out.BYTES, page) == 111


@pytest.mark.parametrize(
    "stat",
    [
        "nr_periods 4\nnr_throttled 2\nthrottled_time 1500000000\n",
        "usage_usec 9\nnr_throttled 2\nthrottled_usec 1500000\n",
    ],
)
def test_throttled_time_is_read_from_both_versions_of_control_groups(stat: str) -> None:
    assert cpu_quota.read_throttled_s(stat) == 1.5
