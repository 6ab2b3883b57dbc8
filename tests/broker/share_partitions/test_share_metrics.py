"""The metrics of share groups count what JVM Kafka counts; `docs/metrics.md` has their names."""

from ottla.admin.metrics import SECTIONS, PageSample
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.errors import ErrorCode
from ottla.wire.acknowledge_type import AcknowledgeType
from share_driver import ShareDriver
from share_member_requests import acknowledge, acquired_by, fetch_request

TOPICS = "kafka_server_brokertopicmetrics_"
ACKNOWLEDGEMENTS = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
TIMEOUTS = "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total"


def share_metrics(driver: ShareDriver) -> dict[tuple[str | None, ...], float]:
    """Return the value of each sample that is about share groups or the topic, by name and labels."""
    taken: list[NodeSnapshot] = []
    for _ in take_snapshot(driver._place.node, taken):
        driver.pause(0.01)
    return {
        (row.name, *labels): value
        for section in SECTIONS
        if section.title in ("Traffic of topics", "Share groups")
        for row in section.rows
        for labels, value in row.samples(section.source(PageSample(taken[0], 0.0)))
    }


def test_requests_and_acknowledged_records_are_counted(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "10")
    assert acquired_by(client, fetch_request(driver, "a")) == [(0, 9, 1)]
    for epoch, (first, last, kind) in enumerate(
        [(0, 4, AcknowledgeType.ACCEPT), (5, 5, AcknowledgeType.RELEASE), (7, 8, AcknowledgeType.REJECT)], 1
    ):
        assert acknowledge(driver, client, epoch, first, last, kind) is ErrorCode.NONE

    metrics = share_metrics(driver)

    assert [metrics[ACKNOWLEDGEMENTS, each] for each in ("Accept", "Release", "Reject", "Renew")] == [5, 1, 2, 0]
    assert metrics[f"{TOPICS}totalshareacknowledgementrequests_total", "t"] == 3
    assert metrics[f"{TOPICS}failedshareacknowledgementrequests_total", "t"] == 0
    assert metrics[f"{TOPICS}totalsharefetchrequests_total", "t"] == 1
    assert metrics[f"{TOPICS}totalfetchrequests_total", "t"] == 0, "Kafka counts the others only"
    assert metrics["ottla_share_partitions", "t"] == 1
    assert metrics["kafka_server_sharepartitionmetrics_inflightmessagecount", "t"] == 5
    assert metrics["kafka_server_sharepartitionmetrics_inflightbatchcount", "t"] == 1
    assert metrics["kafka_server_sharesessioncache_sharesessionscount",] == 1
    assert metrics["kafka_server_sharesessioncache_sharepartitionscount",] == 1


def test_rejected_acknowledgement_counts_as_a_failed_request_and_no_records(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "3")
    assert acquired_by(client, fetch_request(driver, "a")) == [(0, 2, 1)]
    assert acknowledge(driver, client, 1, 0, 7, AcknowledgeType.ACCEPT) is ErrorCode.INVALID_REQUEST

    metrics = share_metrics(driver)

    assert metrics[ACKNOWLEDGEMENTS, "Accept"] == 0
    assert metrics[f"{TOPICS}totalshareacknowledgementrequests_total", "t"] == 1
    assert metrics[f"{TOPICS}failedshareacknowledgementrequests_total", "t"] == 1


def test_each_record_is_counted_whose_lock_times_out(driver: ShareDriver) -> None:
    client = driver.connect()
    driver.produce("t", "0", "10")
    assert acquired_by(client, fetch_request(driver, "a")) == [(0, 9, 1)]
    assert acknowledge(driver, client, 1, 3, 4, AcknowledgeType.ACCEPT) is ErrorCode.NONE
    assert share_metrics(driver)[TIMEOUTS, "t"] == 0

    driver.pause(16)

    assert share_metrics(driver)[TIMEOUTS, "t"] == 8
