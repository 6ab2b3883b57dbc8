"""`benchmarks.false_alarms` counts every alarm, and misses none because a metric is gone."""

import pytest
from benchmarks import false_alarms
from benchmarks.false_alarms import ALARMS, REJECTED

from ottla.errors import ErrorCode
from ottla.wire.messages.produce import PartitionProduceResponse

PAGE = "".join(f"# TYPE {name} gauge\n{name} {number}\n" for number, name in enumerate(ALARMS, 1))


def test_alarms_are_read_from_the_metrics_page() -> None:
    assert false_alarms.alarms_on(PAGE) == {name: number for number, name in enumerate(ALARMS, 1)}


@pytest.mark.parametrize("name", ALARMS)
def test_page_without_one_of_the_metrics_is_an_error(name: str) -> None:
    with pytest.raises(RuntimeError, match=name):
        false_alarms.alarms_on(PAGE.replace(name, "renamed"))


def test_rejected_record_is_an_alarm_and_the_hour_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    produce = false_alarms.produce
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    acknowledged = []

    def reject_once(*args: object, **options: object) -> PartitionProduceResponse:
        if codes:
            return PartitionProduceResponse(error_code=codes.pop())
        response = produce(*args, **options)  # type: ignore[arg-type]
        acknowledged.append(response.base_offset)
        return response

    monkeypatch.setattr(false_alarms, "produce", reject_once)
    monkeypatch.setattr(false_alarms, "HOUR_MS", 2 * false_alarms.PAUSE_MS)

    assert false_alarms.simulate_hour(1) == {REJECTED: 1}
    assert len(acknowledged) == 2 * false_alarms.PARTITIONS - 1
