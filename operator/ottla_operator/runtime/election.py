"""Leader election from one candidate's side: pure, by the candidate's own monotonic clock.

A Lease of coordination.k8s.io names the leader. The leader renews it again and again; other candidates observe whether
it changes. Times in the Lease are never read, so wall clocks may be wrong: a leader may write for
`LeaseTimings.renew_deadline_s` from when it *sent* its last accepted renewal, and another may take over
`LeaseTimings.lease_s` after it *observed* the last change. As long as clocks run equally fast, to within the difference
of the two, at most one candidate may write. Source: k8s.io/client-go/tools/leaderelection.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """Durations of an election, in seconds of a candidate's own clock."""

    lease_s: float = 15.0
    """A Lease that has not changed for so long may be taken over."""

    renew_deadline_s: float = 10.0
    """A leader that could not renew for so long does not lead any more."""

    retry_s: float = 2.0
    """Between two observations, and between two renewals."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s:
            raise ValueError("retry, renew deadline and lease must be positive, and each longer than the one before")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The fields of the Lease."""

    holder: str
    """Identity of the leader; empty when it has stepped down."""

    lease_s: float
    transitions: int
    """How often the leader changed."""

    version: str
    """The object's resourceVersion: another version is another record."""


class Election:
    """One candidate: what it observed, whether it leads, and the record to write next."""

    def __init__(self, identity: str, timings: LeaseTimings) -> None:
        self.identity = identity
        self.timings = timings
        self.is_lost = False
        """It led, and does not any more; final."""
        self._seen: LeaseRecord | None = None
        self._changed_s = 0.0
        self._leads_until_s: float | None = None

    @property
    def holder(self) -> str:
        """The last observed leader; empty without one."""
        return self._seen.holder if self._seen is not None else ""

    @property
    def version(self) -> str | None:
        """ResourceVersion of the last observed record; None without one."""
        return self._seen.version if self._seen is not None else None

    def may_write(self, now_s: float) -> bool:
        """Tell whether this candidate leads at ``now_s``; False after True is final."""
        self._expire(now_s)
        return self._leads_until_s is not None

    def leads_until_s(self) -> float | None:
        """Return when the leadership ends unless it is renewed; None without leadership."""
        return self._leads_until_s

    def observe(self, record: LeaseRecord | None, now_s: float) -> None:
        """Record the Lease that was read at ``now_s``; None if there is none."""
        self._expire(now_s)
        if record is None or self._seen is None or record.version != self._seen.version:
            self._changed_s = now_s
        self._seen = record
        if self._leads_until_s is not None and record is not None and record.holder != self.identity:
            self._lose()

    def bid(self, now_s: float) -> LeaseRecord | None:
        """Return the record to write now in place of `version`; None to observe again later."""
        self._expire(now_s)
        seen = self._seen
        if self.is_lost:
            return None
        if seen is None:
            return LeaseRecord(holder=self.identity, lease_s=self.timings.lease_s, transitions=0, version="")
        if seen.holder == self.identity:
            # A renewal; or an acquisition of this candidate whose response was lost.
            return replace(seen, lease_s=self.timings.lease_s)
        if seen.holder and now_s < self._changed_s + seen.lease_s:
            return None
        return replace(seen, holder=self.identity, lease_s=self.timings.lease_s, transitions=seen.transitions + 1)

    def won(self, record: LeaseRecord, *, sent_s: float, now_s: float) -> None:
        """Record that a bid was accepted as ``record``; it had been sent at ``sent_s``."""
        self._expire(now_s)
        self._seen, self._changed_s = record, now_s
        if not self.is_lost:
            self._leads_until_s = sent_s + self.timings.renew_deadline_s
            self._expire(now_s)

    def release(self) -> LeaseRecord | None:
        """Step down for good; return the record that lets another lead at once, None without leadership."""
        leads, seen = self._leads_until_s is not None, self._seen
        self._lose()
        return replace(seen, holder="", lease_s=1.0) if leads and seen is not None else None

    def _expire(self, now_s: float) -> None:
        if self._leads_until_s is not None and now_s >= self._leads_until_s:
            self._lose()

    def _lose(self) -> None:
        self.is_lost = True
        self._leads_until_s = None
