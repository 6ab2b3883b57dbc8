"""The removal of members: by themselves, by an administrator, or because a session or rebalance timeout is over.

Source: GroupMetadataManager.consumerGroupFenceMembers, maybeDeleteResolvedRegularExpressions of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Sequence

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.consumer.records import epoch_record, member_tombstones, regex_record
from ottla.groups.log import GroupRecord
from ottla.groups.modern.counts import ResolvedRegex
from ottla.groups.modern.topics import ClusterTopics


def removal_records(
    group: ConsumerGroup, members: Sequence[ConsumerMember], topics: ClusterTopics
) -> list[GroupRecord]:
    """Return the records that remove ``members`` (at least one, each once) and increment the group's epoch."""
    records: list[GroupRecord] = []
    for member in members:
        records += member_tombstones(group.group_id, member.member_id)
    subscriptions = group.subscriptions
    lost = Counter(member.subscribed_topic_regex for member in members if member.subscribed_topic_regex)
    removed: dict[str, ResolvedRegex | None] = {}
    for regex, count in lost.items():
        if subscriptions.regexes[regex] == count:
            removed[regex] = None
            records.append(regex_record(group.group_id, regex, None))
    names = subscriptions.topics_after(members, resolved=removed)
    records.append(epoch_record(group.group_id, group.epoch + 1, topics.hash_of(names)))
    return records
