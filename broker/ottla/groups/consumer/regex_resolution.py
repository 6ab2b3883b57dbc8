"""Subscriptions by regular expression: which topics they match, searched in slices and again from time to time.

All expressions of a group are resolved together, so that one change of the topics makes one rebalance. A topic counts
if the member whose heartbeat started the search may describe it.

Source: GroupMetadataManager.maybeUpdateRegularExpressions, handleRegularExpressionsResult, TopicRegexResolver of Apache
Kafka 4.3.
"""

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, TypeAlias

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import REGEX_JOB, ConsumerGroups
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.consumer.records import epoch_record, regex_record
from ottla.groups.log import GroupRecord
from ottla.groups.modern.counts import ResolvedRegex
from ottla.groups.modern.jobs import GroupJob, in_job
from ottla.groups.regex import check_pattern, resolve
from ottla.purgatory.steps import sorted_in_steps
from ottla.quoting import quoted

log = logging.getLogger(__name__)

REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""Least time from one search to the next (Kafka's constant)."""
_TOPICS_PER_STEP: Final = 32

MayDescribe: TypeAlias = Callable[[str], bool]
"""Returns whether a client may see a topic."""


class RegexChange(Enum):
    """The effect of a heartbeat on the member's expression."""

    NONE = auto()
    UPDATED = auto()
    """To one that must be searched first; the group's epoch changes with its result."""
    UPDATED_AND_RESOLVED = auto()


def update_regexes(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    may_describe: MayDescribe,
    records: list[GroupRecord],
) -> RegexChange:
    """Handle a changed expression of a member, and start a search if the group needs one.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
    subscriptions = group.subscriptions
    change = RegexChange.NONE
    is_new_regex = False
    given_up = subscriptions.regex_given_up(old, new)
    if given_up is not None:
        records.append(regex_record(group.group_id, given_up, None))
    if before != after:
        change = RegexChange.UPDATED
        if not after or (subscriptions.regexes[after] and after in subscriptions.resolved):
            change = RegexChange.UPDATED_AND_RESOLVED
        elif not subscriptions.regexes[after]:
            check_pattern(after)
            is_new_regex = True
    count = len(subscriptions.regexes) - (given_up is not None) + is_new_regex
    if (
        count > 0
        and not groups.jobs.is_running(REGEX_JOB, group.group_id)
        and _needs_search(groups, group, count, is_new_regex=is_new_regex)
    ):
        wanted = [*(regex for regex in subscriptions.regexes if regex != given_up), *([after] if is_new_regex else [])]
        groups.jobs.start(REGEX_JOB, group.group_id, _search(groups, group.group_id, wanted, may_describe))
    return change


def _needs_search(groups: ConsumerGroups, group: ConsumerGroup, count: int, *, is_new_regex: bool) -> bool:
    """Return whether the expressions, ``count`` with this heartbeat, are to be searched now."""
    resolved = group.subscriptions.resolved
    # All are resolved together: any of them has the time and the version of all.
    last = next(iter(resolved.values()), None)
    if last is None:
        return True
    age_ms = groups.clock.wall_ms() - last.timestamp_ms
    # The clock of a former coordinator may have been ahead by hours: no search waits for that.
    if 0 <= age_ms <= REFRESH_INTERVAL_MS_MIN:
        return False
    return (
        is_new_regex
        or count != len(resolved)
        or last.version < groups.topics.new_topics_version
        or age_ms > groups.settings.config.consumer_regex_refresh_interval_ms
    )


def _search(groups: ConsumerGroups, group_id: str, wanted: Iterable[str], may_describe: MayDescribe) -> GroupJob:
    """Search the topics of ``wanted``, and write what has been found."""
    version, started_ms = groups.topics.version, groups.clock.wall_ms()
    names = list(groups.topics.names)
    visible: dict[str, bool] = {}
    found: dict[str, ResolvedRegex] = {}
    for regex in wanted:
        matching = yield from in_job(resolve(regex, names))
        topics = []
        for number, topic in enumerate(matching, 1):
            if topic not in visible:
                visible[topic] = may_describe(topic)
            if visible[topic]:
                topics.append(topic)
            if number % _TOPICS_PER_STEP == 0:
                yield None
        found[regex] = ResolvedRegex(tuple((yield from in_job(sorted_in_steps(topics)))), version, started_ms)
        yield from in_job(groups.topics.prepare(topics))
    group = groups.groups.get(group_id)
    if group is not None:
        yield _result_records(groups, group, found)


def _result_records(groups: ConsumerGroups, group: ConsumerGroup, found: dict[str, ResolvedRegex]) -> list[GroupRecord]:
    """Return the records of the expressions that members still subscribe to; a new epoch if their topics changed."""
    subscriptions = group.subscriptions
    current = {regex: resolved for regex, resolved in found.items() if subscriptions.regexes[regex]}
    records = [regex_record(group.group_id, regex, resolved) for regex, resolved in current.items()]
    is_changed = any(
        subscriptions.resolved.get(regex, ResolvedRegex()).topics != resolved.topics
        for regex, resolved in current.items()
    )
    topics_hash = groups.topics.hash_of(subscriptions.topics_after([], resolved=current))
    if is_changed or topics_hash != group.metadata_hash:
        epoch = group.epoch + 1
        records.append(epoch_record(group.group_id, epoch, topics_hash))
        group.note_refresh(groups.topics, groups.clock.monotonic_ms(), epoch)
        log.info("Group %s has epoch %d: its expressions match other topics", quoted(group.group_id), epoch)
    return records
