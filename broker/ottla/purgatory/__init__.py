"""Where answers wait: `Delayed` is an answer that is not there yet, `Purgatory` completes it by event or deadline."""

from ottla.purgatory.delayed import Delayed
from ottla.purgatory.purgatory import Purgatory

__all__ = ["Delayed", "Purgatory"]
