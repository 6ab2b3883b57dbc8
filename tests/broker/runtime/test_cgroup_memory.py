"""Memory limit and use of a control group, v1 and v2; the page cache does not count as use."""

from pathlib import Path

import pytest

from ottla.ports import MemoryUse
from ottla.runtime.cgroup_memory import CgroupMemory

MIB = 1024 * 1024
STAT_2 = "anon 1\nactive_file 10\ninactive_file 20\nslab_reclaimable 5\n"
STAT_1 = "active_file 1\ninactive_file 2\ntotal_active_file 10\ntotal_inactive_file 20\n"


def write(root: Path, folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def use(tmp_path: Path, cgroups: str) -> MemoryUse | None:
    (tmp_path / "cgroup").write_text(cgroups)
    return CgroupMemory(cgroups=tmp_path / "cgroup", root=tmp_path / "fs").use()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"memory.max": "1000", "memory.high": "max"}, MemoryUse(465, 1000), id="max"),
        pytest.param({"memory.max": "1000", "memory.high": "800"}, MemoryUse(465, 800), id="high"),
        pytest.param({"memory.max": "max", "memory.high": "max"}, None, id="no-limit"),
        pytest.param({}, None, id="root-without-files"),
    ],
)
def test_version_2_reports_use_and_limit(tmp_path: Path, files: dict[str, str], expected: MemoryUse | None) -> None:
    write(tmp_path / "fs", "pod", files | {"memory.current": "500\n", "memory.stat": STAT_2})

    assert use(tmp_path, "0::/pod\n") == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [("1000", MemoryUse(470, 1000)), ("9223372036854771712", None)], ids=["limit", "no-limit"]
)
def test_version_1_reports_use_and_limit(tmp_path: Path, limit: str, expected: MemoryUse | None) -> None:
    files = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": "500", "memory.stat": STAT_1}
    write(tmp_path / "fs", "memory/pod", files)

    assert use(tmp_path, "4:cpu,memory:/pod\n0::/\n") == expected


def test_mounted_group_counts_in_container(tmp_path: Path) -> None:
    write(tmp_path / "fs", "", {"memory.max": "1000", "memory.current": "500", "memory.stat": STAT_2})

    assert use(tmp_path, "0::/kubepods/of/the/host\n") == MemoryUse(465, 1000)


def test_level_closest_to_its_limit_counts(tmp_path: Path) -> None:
    write(tmp_path / "fs", "slice", {"memory.max": "1000", "memory.current": "900", "memory.stat": ""})
    write(tmp_path / "fs", "slice/pod", {"memory.max": "800", "memory.current": "200", "memory.stat": ""})

    assert use(tmp_path, "0::/slice/pod\n") == MemoryUse(900, 1000)


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert CgroupMemory(cgroups=tmp_path / "none", root=tmp_path).use() is None
