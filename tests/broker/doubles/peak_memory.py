"""How much memory an action takes at most."""

import gc
import tracemalloc
from collections.abc import Callable


def peak_bytes_of(action: Callable[[], object]) -> int:
    """Return the most bytes that Python had allocated while ``action`` ran.

    The garbage collector waits: it runs finalizers of objects of earlier tests, and what they log takes memory.
    """
    gc.disable()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
