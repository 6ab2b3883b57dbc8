"""`SubscriptionCounts`: how many members subscribe to each topic, by name and by regular expression.

They are kept as members change, so that no request has to walk the members of a group.

Source: ModernGroup.subscribedTopicNames, SubscriptionCount of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class Subscriber(Protocol):
    """A member, as far as its subscription goes."""

    @property
    def subscribed_topic_names(self) -> tuple[str, ...]:
        """Return sorted names, each once."""

    @property
    def subscribed_topic_regex(self) -> str:
        """Return a regular expression; empty for none."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched.

    Attributes:
        topics: sorted names.
        version: offset of the metadata image that was searched.
        timestamp_ms: wall clock.
    """

    topics: tuple[str, ...] = ()
    version: int = 0
    timestamp_ms: int = 0


class SubscriptionCounts:
    """Counts of one group; names and expressions without subscribers are not in them.

    Attributes:
        regexes: members by regular expression.
        resolved: the topics of each expression.
    """

    __slots__ = ("_by_name", "_by_regex", "regexes", "resolved")

    def __init__(self) -> None:
        self.regexes: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedRegex] = {}
        self._by_name: Counter[str] = Counter()
        self._by_regex: Counter[str] = Counter()

    @property
    def topics(self) -> set[str]:
        """Every topic that the group subscribes to, whether it exists or not; a copy."""
        return self._by_name.keys() | self._by_regex.keys()

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_name or topic in self._by_regex

    def regex_given_up(self, old: Subscriber, new: Subscriber) -> str | None:
        """Return the expression that goes with its last member, if ``new`` instead of ``old`` has another or none."""
        before = old.subscribed_topic_regex
        is_last = before != new.subscribed_topic_regex and self.regexes[before] == 1
        return before if is_last else None

    def replace(self, old: Subscriber | None, new: Subscriber | None) -> None:
        """Count ``new`` instead of ``old``."""
        before = old.subscribed_topic_names if old is not None else ()
        after = new.subscribed_topic_names if new is not None else ()
        if before != after:
            # Of thousands of names most stay.
            _subtract(self._by_name, set(before).difference(after))
            self._by_name.update(set(after).difference(before))
        before_regex = old.subscribed_topic_regex if old is not None else ""
        after_regex = new.subscribed_topic_regex if new is not None else ""
        if before_regex != after_regex:
            _subtract(self.regexes, [before_regex] if before_regex else [])
            self.regexes.update([after_regex] if after_regex else [])

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics of ``regex``; None removes it."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _subtract(self._by_regex, before.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self._by_regex.update(resolved.topics)

    def topics_after(
        self,
        removed: Collection[Subscriber],
        added: Subscriber | None = None,
        resolved: Mapping[str, ResolvedRegex | None] | None = None,
    ) -> set[str]:
        """Return `topics` as it will be without the members ``removed``, with ``added`` and with the expressions.

        ``resolved``: new topics of expressions, None for an expression that goes with its last member.
        """
        gained: set[str] = set(added.subscribed_topic_names) if added is not None else set()
        for after in (resolved or {}).values():
            if after is not None:
                gained.update(after.topics)
        lost: Counter[str] = Counter()
        for member in removed:
            lost.update(set(member.subscribed_topic_names).difference(gained))
        for regex in resolved or ():
            before = self.resolved.get(regex)
            if before is not None:
                lost.update(set(before.topics).difference(gained))
        by_name, by_regex = self._by_name, self._by_regex
        topics = self.topics
        topics.difference_update(
            [name for name, count in lost.items() if count >= by_name.get(name, 0) + by_regex.get(name, 0)]
        )
        topics.update(gained)
        return topics

    def names_of(self, member: Subscriber) -> Collection[str]:
        """Return the topics that ``member`` subscribes to; none for an expression that is not resolved yet."""
        resolved = self.resolved.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
        if resolved is None:
            return member.subscribed_topic_names
        if not member.subscribed_topic_names:
            return resolved.topics
        return {*member.subscribed_topic_names, *resolved.topics}


def add_count(counts: Counter[KeyT], key: KeyT, change: int) -> None:
    """Add ``change``; a count that becomes 0 is removed."""
    counts[key] += change
    if counts[key] <= 0:
        del counts[key]


def _subtract(counts: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        add_count(counts, key, -1)
