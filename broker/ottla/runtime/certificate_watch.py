"""`CertificateWatch`: a thread that looks every few seconds whether certificates have changed, and has them renewed.

On a thread of its own because a file system may be slow to answer, and because parsing keys takes milliseconds.
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
    """See the module. ``properties``: those of the node, by which the contexts were made."""

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
        # A daemon, because a file system that does not answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="ottla-certificates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def use(self, properties: Mapping[str, str]) -> None:
        """Take settings that have changed, soon; may be called from any thread."""
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
                # What is in use stays in use, and the next look may fare better.
                logger.exception("looking for changed certificates failed")
