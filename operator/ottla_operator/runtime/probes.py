"""HTTP endpoints of the operator: liveness (/healthz), readiness (/readyz), and metrics."""

import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ottla_operator.runtime.leadership import Leadership
from ottla_operator.runtime.metrics import OperatorMetrics
from ottla_operator.runtime.watch_health import WatchHealth
from ottla_operator.runtime.work_queue import WorkQueue


class Probes:
    """Serves kubelet and Prometheus, on the leader and on standbys."""

    def __init__(
        self,
        queue: WorkQueue,
        watches: WatchHealth,
        metrics: OperatorMetrics,
        *,
        leadership: Leadership | None = None,
        stall_s: float,
        watch_stall_s: float,
        is_listed: Callable[[], bool],
    ) -> None:
        """``leadership``: None for an operator that runs without a Lease.

        ``is_listed`` returns whether every object has been listed.
        """
        self._queue = queue
        self._watches = watches
        self._metrics = metrics
        self._leadership = leadership
        self._stall_s = stall_s
        self._watch_stall_s = watch_stall_s
        self._is_listed = is_listed
        self.leads = False
        """Set while this process leads."""

    def application(self) -> web.Application:
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._serve_metrics),
            ]
        )
        return application

    async def _healthz(self, _: web.Request) -> web.Response:
        body: dict[str, Any] = {"role": self._role}
        if not self.leads:
            return web.json_response(body)
        standstill_s, ages_s = self._queue.standstill_s(), self._watches.ages_s(time.monotonic())
        body |= {
            "queueLength": len(self._queue),
            "oldestSeconds": round(self._queue.oldest_age_s(), 3),
            "watchSeconds": {resource: round(age_s, 3) for resource, age_s in ages_s.items()},
        }
        if standstill_s > self._stall_s:
            message = f"no worker takes keys: an object has been waiting for {standstill_s:.0f} s"
            return web.json_response({**body, "error": message}, status=503)
        silent = {resource: age_s for resource, age_s in ages_s.items() if age_s > self._watch_stall_s}
        if silent:
            quiet = ", ".join(f"{resource} for {age_s:.0f} s" for resource, age_s in sorted(silent.items()))
            message = f"watches have given no sign of life: {quiet}"
            return web.json_response({**body, "error": message}, status=503)
        return web.json_response(body)

    async def _readyz(self, _: web.Request) -> web.Response:
        body: dict[str, Any] = {"role": self._role}
        if self._leadership is not None:
            body["leader"] = self._leadership.holder
        if (problem := self._problem()) is not None:
            return web.json_response({**body, "ready": False, "error": problem}, status=503)
        return web.json_response({**body, "ready": True})

    @property
    def _role(self) -> str:
        return "leader" if self.leads else "standby"

    def _problem(self) -> str | None:
        """Return why a leader cannot work, or a standby could not take over."""
        if not self.leads:
            return self._leadership.problem if self._leadership is not None else "it has not started"
        if not self._is_listed():
            return "the first listing of all objects is not complete"
        problem = self._watches.problem
        return f"not everything is watched: {problem}" if problem is not None else None

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        metrics = self._metrics
        metrics.queue_length.set(len(self._queue))
        metrics.queue_oldest_s.set(self._queue.oldest_age_s())
        metrics.leader.set(self.leads)
        # A standby has no watches: neither series would mean anything.
        if self.leads:
            metrics.watches_open.set(self._watches.problem is None)
            for resource, age_s in self._watches.ages_s(time.monotonic()).items():
                metrics.watch_age_s.labels(resource).set(age_s)
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
