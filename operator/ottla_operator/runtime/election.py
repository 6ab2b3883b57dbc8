"""Who leads, as one candidate sees it: pure, by the candidate's own monotonic clock.

The leader's name stands in a Lease of coordination.k8s.io. Who leads rewrites it again and again; who does not, watches
whether it changes. No time that somebody else wrote is ever read, so wall clocks may be as wrong as they like: a leader
may write for `LeaseTimings.renew_deadline_s` from when it *sent* its last accepted renewal, and another may take over
`LeaseTimings.lease_s` after it *saw* the last change. As long as clocks run equally fast, to within the difference of
the two, at most one candidate may write. Source: k8s.io/client-go/tools/leaderelection.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """How long things take, in seconds of a candidate's own clock."""

    lease_s: float = 15.0
    """A record that has not changed for so long may be taken over."""

    renew_deadline_s: float = 10.0
    """Who could not renew for so long does not lead any more."""

    retry_s: float = 2.0
    """Between two looks, and between two renewals."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s:
            raise ValueError("retry, renew deadline and lease must be positive, and each longer than the one before")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What the Lease says."""

    holder: str
    """Identity of the leader; empty when it has stepped down."""

    lease_s: float
    transitions: int
    """How often the leader changed."""

    version: str
    """The object's resourceVersion: another one is another record."""


class Election:
    """One candidate: what it saw, whether it leads, and what it should write next."""

    def __init__(self, identity: str, timings: LeaseTimings) -> None:
        self.identity = identity
        self.timings = timings
        self.is_lost = False
        """It led, and does not any more; for ever."""
        self._seen: LeaseRecord | None = None
        self._changed_s = 0.0
        self._leads_until_s: float | None = None

    @property
    def holder(self) -> str:
        """Who leads as far as was seen; empty when nobody does."""
        return self._seen.holder if self._seen is not None else ""

    @property
    def version(self) -> str | None:
        """ResourceVersion of the record that was seen last; None when there was none."""
        return self._seen.version if self._seen is not None else None

    def may_write(self, now_s: float) -> bool:
        """Tell whether this candidate leads at ``now_s``; once False after True, it is so for ever."""
        self._look_at_the_clock(now_s)
        return self._leads_until_s is not None

    def leads_until_s(self) -> float | None:
        """Return when the leadership ends unless it is renewed; None for who does not lead."""
        return self._leads_until_s

    def observe(self, record: LeaseRecord | None, now_s: float) -> None:
        """Take in what was read at ``now_s``; None when there is no Lease."""
        self._look_at_the_clock(now_s)
        if record is None or self._seen is None or record.version != self._seen.version:
            self._changed_s = now_s
        self._seen = record
        if self._leads_until_s is not None and record is not None and record.holder != self.identity:
            self._lose()

    def bid(self, now_s: float) -> LeaseRecord | None:
        """Return the record to write now in place of `version`; None to look again later."""
        self._look_at_the_clock(now_s)
        seen = self._seen
        if self.is_lost:
            return None
        if seen is None:
            return LeaseRecord(holder=self.identity, lease_s=self.timings.lease_s, transitions=0, version="")
        if seen.holder == self.identity:
            # A renewal; or an acquisition of ours whose answer was lost.
            return replace(seen, lease_s=self.timings.lease_s)
        if seen.holder and now_s < self._changed_s + seen.lease_s:
            return None
        return replace(seen, holder=self.identity, lease_s=self.timings.lease_s, transitions=seen.transitions + 1)

    def won(self, record: LeaseRecord, *, sent_s: float, now_s: float) -> None:
        """Take in that a bid was accepted as ``record``; it had been sent at ``sent_s``."""
        self._look_at_the_clock(now_s)
        self._seen, self._changed_s = record, now_s
        if not self.is_lost:
            self._leads_until_s = sent_s + self.timings.renew_deadline_s
            self._look_at_the_clock(now_s)

    def release(self) -> LeaseRecord | None:
        """Step down for ever; return the record that lets another lead at once, None for who does not lead."""
        leads, seen = self._leads_until_s is not None, self._seen
        self._lose()
        return replace(seen, holder="", lease_s=1.0) if leads and seen is not None else None

    def _look_at_the_clock(self, now_s: float) -> None:
        if self._leads_until_s is not None and now_s >= self._leads_until_s:
            self._lose()

    def _lose(self) -> None:
        self.is_lost = True
        self._leads_until_s = None
