"""When maintenance windows are open, and the message while they are closed."""

import pytest

from ottla_operator.model.maintenance import MaintenanceWindow, closed_reason, invalid_reason

SATURDAY_NIGHT = MaintenanceWindow.parse({"schedule": "0 2 * * 6", "durationMinutes": 240, "timeZone": "Europe/Prague"})
EVERY_NOON = MaintenanceWindow.parse({"schedule": "0 12 * * *", "durationMinutes": 1})


@pytest.mark.parametrize(
    ("now", "said"),
    [
        # 2026-01-03 is a Saturday; Prague is an hour ahead of UTC in winter, two in summer.
        pytest.param("2026-01-03T00:59:59Z", "2026-01-03T02:00:00+01:00", id="a-second-before"),
        pytest.param("2026-01-03T01:00:00Z", None, id="opens"),
        pytest.param("2026-01-03T04:59:59Z", None, id="last-second"),
        pytest.param("2026-01-03T05:00:00Z", "2026-01-10T02:00:00+01:00", id="closes"),
        pytest.param("2026-07-04T00:30:00Z", None, id="summer-time"),
        pytest.param("2026-01-01T12:00:30Z", "2026-01-03T02:00:00+01:00", id="another-day"),
    ],
)
def test_window_is_open_for_its_time(now: str, said: str | None) -> None:
    expected = None if said is None else f"the next maintenance window opens at {said}"

    assert closed_reason([SATURDAY_NIGHT], now) == expected


def test_first_of_several_windows_is_named() -> None:
    assert closed_reason([SATURDAY_NIGHT, EVERY_NOON], "2026-01-01T13:00:00Z") == (
        "the next maintenance window opens at 2026-01-02T12:00:00+00:00"
    )
    assert closed_reason([SATURDAY_NIGHT, EVERY_NOON], "2026-01-01T12:00:59Z") is None


def test_cluster_without_windows_is_always_open() -> None:
    assert closed_reason([], "2026-01-01T00:00:00Z") is None


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        ({"schedule": "99 2 * * 6"}, "window '99 2 * * 6' in 'UTC' cannot be read (Bad minute)"),
        ({"schedule": "0 2 30 2 *"}, "window '0 2 30 2 *' in 'UTC' cannot be read (Bad day-of-month)"),
        ({"schedule": "0 2 * * 6", "timeZone": "Prague"}, "in 'Prague' cannot be read ('No time zone found"),
        ({"schedule": "0 2 * * 6", "timeZone": "../etc/passwd"}, "in '../etc/passwd' cannot be read"),
    ],
    ids=["no-minute", "no-day", "no-time-zone", "path"],
)
def test_window_that_can_never_open_is_invalid(window: dict[str, str], problem: str) -> None:
    wrong = MaintenanceWindow.parse({"durationMinutes": 60, **window})

    said = invalid_reason([EVERY_NOON, wrong])

    assert said is not None
    assert problem in said
    assert said.endswith("; correct spec.maintenanceWindows")
    assert closed_reason([wrong], "2026-01-03T01:00:00Z") == "no maintenance window ever opens"
    assert "opens at 2026-01-03T12:00" in (closed_reason([wrong, EVERY_NOON], "2026-01-03T01:00:00Z") or "")


@pytest.mark.parametrize("schedule", ["0 2 29 2 *", "*/5 * * * *", "0 2 * * 6#1", "0 2 L * *"])
def test_window_that_opens_seldom_is_valid(schedule: str) -> None:
    assert invalid_reason([MaintenanceWindow.parse({"schedule": schedule, "durationMinutes": 60})]) is None
