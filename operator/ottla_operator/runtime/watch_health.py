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
    alive_s: float
    """Time of the last response or failure of its request, or of its last event."""

    problem: str | None = "not opened yet"


class WatchHealth:
    """The watches of one process: one for each resource (plural) in each namespace (empty: all)."""

    def __init__(self, targets: Iterable[tuple[str, str]], now_s: float) -> None:
        self._watches = {target: _Watch(now_s) for target in targets}
        self._down: str | None = None

    def observe_request(self, call: ApiCall, now_s: float) -> str | None:
        """Record one request; return a message if the state of its watch has changed, else None."""
        target = call.resource, call.namespace
        watch = self._watches.get(target)
        if watch is None or call.verb not in ("list", "watch"):
            return None
        watch.alive_s = now_s
        if call.verb == "list" and not call.error:
            # Only an open watch will report later changes.
            return None
        self._down = None
        before, watch.problem = watch.problem, call.error or None
        if before == watch.problem:
            return None
        return f"the watch of {_name(target)} " + (f"is not open: {call.error}" if call.error else "is open")

    def observe_event(self, resource: str, namespace: str, now_s: float) -> None:
        """Record an event of an object."""
        for target in ((resource, namespace), (resource, "")):
            if target in self._watches:
                self._watches[target].alive_s = now_s

    def observe_failure(self, problem: str, now_s: float) -> None:
        """Record why no watch could be started at all."""
        self._down = problem
        for watch in self._watches.values():
            watch.alive_s, watch.problem = now_s, problem

    @property
    def problem(self) -> str | None:
        """Why a watch is not open; None if all are."""
        found = [f"{_name(target)}: {it.problem}" for target, it in self._watches.items() if it.problem is not None]
        return self._down or "; ".join(found) or None

    def ages_s(self, now_s: float) -> dict[str, float]:
        """Return for each resource the time since its quietest watch gave a sign of life."""
        found: dict[str, float] = {}
        for (resource, _), watch in self._watches.items():
            found[resource] = max(found.get(resource, 0.0), now_s - watch.alive_s)
        return found


def _name(target: tuple[str, str]) -> str:
    resource, namespace = target
    return f"{resource} in {namespace}" if namespace else resource
