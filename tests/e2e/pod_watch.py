"""`PodWatch`: deleted pods of a cluster, and how many were down at the same time."""

import json
import subprocess
import threading
import time
from types import TracebackType
from typing import Self

import pytest
from kubernetes_namespace import ROOT, Document, Namespace


class PodWatch:
    """Watch of a cluster's pods while it is entered: deleted pods, and how many were down at the same time."""

    def __init__(self, namespace: Namespace, cluster: str = "demo") -> None:
        self.deleted: list[str] = []
        """Names, in order of their deletion."""
        self.down_most: int = 0
        """The highest number of pods, of those at the start, that were not ready at the same time."""
        self.history: list[tuple[float, str, str]] = []
        """Each change of the pods at the start: seconds, pod, and its new state."""
        self._expected = set(namespace.pods(cluster))
        self._ready: set[str] = set()
        self._command = [
            *("kubectl", "--namespace", namespace.name, "get", "pods", "-l", f"ottla.dev/cluster={cluster}"),
            *("--watch", "--output-watch-events", "-o", "json"),
        ]
        self._listed = threading.Event()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        if not self._listed.wait(30):
            self._end()
            pytest.fail(f"not all of {sorted(self._expected)} are ready when their watch starts")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Watch events arrive within a moment.
        time.sleep(1)
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._thread.join()
        self._process.communicate()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            self._take(event["type"], event["object"])

    def _take(self, kind: str, pod: Document) -> None:
        name, is_ending = pod["metadata"]["name"], bool(pod["metadata"].get("deletionTimestamp"))
        conditions = {it["type"]: it["status"] for it in pod.get("status", {}).get("conditions", [])}
        is_ready = kind != "DELETED" and not is_ending and conditions.get("Ready") == "True"
        if self._listed.is_set() and name in self._expected and is_ready != (name in self._ready):
            became = "ready" if is_ready else "deleted" if is_ending else "not ready"
            self.history.append((round(time.monotonic(), 1), name, became))
        if is_ready:
            self._ready.add(name)
        else:
            if is_ending and name in self._ready:
                self.deleted.append(name)
            self._ready.discard(name)
        if self._ready >= self._expected:
            self._listed.set()
        if self._listed.is_set():
            self.down_most = max(self.down_most, len(self._expected - self._ready))
