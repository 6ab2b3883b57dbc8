"""Topologies of Kafka Streams applications as members of streams groups send them."""

from collections.abc import Iterable

from ottla.wire.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TopicInfo, Topology


def internal_topic(
    name: str, partitions: int = 0, *, replication_factor: int = 0, configs: Iterable[tuple[str, str]] = ()
) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        topic_configs=[KeyValue(key=key, value=value) for key, value in configs],
    )


def subtopology(
    subtopology_id: str = "0",
    *,
    sources: Iterable[str] = (),
    repartition_sources: Iterable[TopicInfo] = (),
    sinks: Iterable[str] = (),
    changelogs: Iterable[TopicInfo] = (),
    copartitioned: Iterable[tuple[list[int], list[int]]] = (),
) -> Subtopology:
    """Return a subtopology; ``copartitioned`` has the indices of source topics and repartition source topics."""
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartition_sources),
        copartition_groups=[
            CopartitionGroup(source_topics=topics, repartition_source_topics=repartition_topics)
            for topics, repartition_topics in copartitioned
        ],
    )


def topology_message(*subtopologies: Subtopology, epoch: int = 1) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))
