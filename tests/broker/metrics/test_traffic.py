"""Counters only grow, also in the total after the deletion of a topic."""

from ottla.metrics.traffic import TopicTraffic, Traffic


def test_topic_has_one_set_of_counters() -> None:
    traffic = Traffic()
    traffic.for_topic("t").bytes_in += 3
    traffic.for_topic("t").bytes_in += 4

    assert traffic.by_topic == {"t": TopicTraffic(bytes_in=7)}


def test_total_includes_deleted_topics() -> None:
    traffic = Traffic()
    traffic.for_topic("kept").messages_in += 5
    traffic.for_topic("deleted").messages_in += 2
    traffic.for_topic("deleted").failed_fetch_requests += 1

    traffic.drop_topic("deleted")
    traffic.drop_topic("never-there")

    assert traffic.total() == TopicTraffic(messages_in=7, failed_fetch_requests=1)
    assert list(traffic.by_topic) == ["kept"]
    assert traffic.total() == traffic.total()
