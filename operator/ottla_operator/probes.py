"""The operator's HTTP: whether it moves (/healthz), whether it is set up (/readyz), and its metrics."""

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ottla_operator.metrics import OperatorMetrics
from ottla_operator.reconcile.queue import DirtyKeys


class Probes:
    """Answers kubelet and Prometheus about one operator."""

    def __init__(self, queue: DirtyKeys, metrics: OperatorMetrics, *, stall_s: float) -> None:
        self._queue = queue
        self._metrics = metrics
        self._stall_s = stall_s
        self.is_ready = False
        """Set once every object has been listed."""

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
        oldest_s = self._queue.oldest_age_s()
        body = {"queueLength": len(self._queue), "oldestSeconds": round(oldest_s, 3)}
        if oldest_s > self._stall_s:
            message = f"nothing is taken from the queue: an object has been waiting for {oldest_s:.0f} s"
            return web.json_response({**body, "error": message}, status=503)
        return web.json_response(body)

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self.is_ready:
            return web.json_response({"error": "the first listing of all objects is not complete"}, status=503)
        return web.json_response({"ready": True})

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        self._metrics.queue_length.set(len(self._queue))
        self._metrics.queue_oldest_s.set(self._queue.oldest_age_s())
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
