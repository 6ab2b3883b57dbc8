"""`CertificateWatch`: a thread that checks every few seconds for changed certificates, and reloads them.

It runs off the loop because a file system may block, and because parsing keys takes milliseconds.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Final

from ottla.ports import Clock
from ottla.runtime.tls_contexts import ListenerContexts

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 3.0


class CertificateWatch:
    """Watch of certificate files and TLS settings; ``contexts`` were built from ``properties``, the node's."""

    def __init__(
        self,
        contexts: ListenerContexts,
        clock: Clock,
        properties: Mapping[str, str],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._contexts = contexts
        self._clock = clock
        self._properties = properties
        self._interval_s = interval_s
        self._is_stopping = False
        self._wake = threading.Event()
        # A daemon thread: a file system that blocks must not keep the process from exiting.
        self._thread = threading.Thread(target=self._run, name="ottla-certificates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def use(self, properties: Mapping[str, str]) -> None:
        """Apply changed settings soon; may be called from any thread."""
        self._properties = properties
        self._wake.set()

    def stop(self) -> None:
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(self._interval_s)

    def _run(self) -> None:
        while True:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            if self._is_stopping:
                return
            try:
                self._contexts.renew(self._properties)
                self._contexts.warn_of_expiry(self._clock.wall_ms())
            except Exception:
                # Listeners keep their current certificates, and the next check may succeed.
                logger.exception("the check for changed certificates failed")
