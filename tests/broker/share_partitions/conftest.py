"""A broker with the topic ``t``, which the share group ``g`` reads from its start."""

import pytest

from share_driver import ShareDriver, leave_out_fields


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ShareDriver:
    leave_out_fields(monkeypatch)
    driver = ShareDriver()
    driver.topics("t=1")
    driver.group("g", "share.auto.offset.reset=earliest", "share.record.lock.duration.ms=15000")
    return driver
