"""Counters only grow, also in the total, whatever becomes of their topic."""

from ottla.metrics.traffic import TopicTraffic, Traffic


def test_a_topic_has_one_set_of_counters() -> None:
    traffic = Traffic()
    traffic.of("t").bytes_in += 3
    traffic.of("t").bytes_in += 4

    assert traffic.by_topic == {"t": TopicTraffic(bytes_in=7)}


def test_the_total_is_of_all_topics_that_there_are_and_were() -> None:
    traffic = Traffic()
    traffic.of("kept").messages_in += 5
    traffic.of("deleted").messages_in += 2
    traffic.of("deleted").failed_fetch_requests += 1

    traffic.forget("deleted")
    traffic.forget("never-there")

    assert traffic.total() == TopicTraffic(messages_in=7, failed_fetch_requests=1)
    assert list(traffic.by_topic) == ["kept"]
    assert traffic.total() == traffic.total()
