"""Liveness of the watches, from the results of their requests: pure, by a monotonic clock.

An open watch may report nothing for long, but ends and is opened again at least every few minutes (`watches.WATCH_S`):
a longer silence means that the task which should open it is dead. An API server that rejects the request, or cannot be
reached, counts as a sign of life: a restart of this process would not repair it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla_operator.adapters.kubernetes.api_calls import ApiCall


@dataclass(slots=True)
class _Watch:
    heard_s: float
    """When its last request was answered, or failed, or it told of an event."""

    problem: str | None = "not opened yet"


class WatchHealth:
    """The watches of one process: one for each resource (plural) in each namespace (empty: all)."""

    def __init__(self, targets: Iterable[tuple[str, str]], now_s: float) -> None:
        self._watches = {target: _Watch(now_s) for target in targets}
        self._down: str | None = None

    def heard(self, call: ApiCall, now_s: float) -> str | None:
        """Take in one request; return what is new about the watch it was for, in words, None when nothing is."""
        target = call.resource, call.namespace
        watch = self._watches.get(target)
        if watch is None or call.verb not in ("list", "watch"):
            return None
        watch.heard_s = now_s
        if call.verb == "list" and not call.words:
            # Only a watch that is open will tell of what comes.
            return None
        self._down = None
        before, watch.problem = watch.problem, call.words or None
        if before == watch.problem:
            return None
        return f"the watch of {_name(target)} " + (f"is not open: {call.words}" if call.words else "is open")

    def told(self, resource: str, namespace: str, now_s: float) -> None:
        """Take in that an event of an object came."""
        for target in ((resource, namespace), (resource, "")):
            if target in self._watches:
                self._watches[target].heard_s = now_s

    def tried(self, problem: str, now_s: float) -> None:
        """Take in that no watch could even be begun, and why."""
        self._down = problem
        for watch in self._watches.values():
            watch.heard_s, watch.problem = now_s, problem

    @property
    def problem(self) -> str | None:
        """What keeps a watch from being open; None when all are."""
        found = [f"{_name(target)}: {it.problem}" for target, it in self._watches.items() if it.problem is not None]
        return self._down or "; ".join(found) or None

    def ages_s(self, now_s: float) -> dict[str, float]:
        """Return for each resource how long its quietest watch has given no sign of life."""
        found: dict[str, float] = {}
        for (resource, _), watch in self._watches.items():
            found[resource] = max(found.get(resource, 0.0), now_s - watch.heard_s)
        return found


def _name(target: tuple[str, str]) -> str:
    resource, namespace = target
    return f"{resource} in {namespace}" if namespace else resource
