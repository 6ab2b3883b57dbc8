"""Delayed results: `Delayed` is a result that is not available yet, `Purgatory` completes it by event or deadline.

Terms: a *delayed* operation completes once, with a value, or is abandoned; its callbacks run at once when it completes.
*Steps* are generators that yield between slices of work, or wait for a `Delayed`. *Off the loop* work runs on
`ports.Background`, within a `MemoryBudget`.

Invariants:

- A `Delayed` is completed at most once; a callback that is added later runs immediately.
- `check` tries the operations of a key in the order of their arrival; `expire` completes them by deadline.
- Nothing here blocks: deadlines are checked by the owner's `tick`.

Start with `delayed`, then `purgatory`, then `steps`. Handlers return a `Delayed` when a response has to wait (acks=all,
a fetch without records, a join); Kafka's DelayedOperationPurgatory is the model.

Surprises: abandoning a result does not complete it, but runs ``on_abandon``, so that work for a closed connection ends.
"""

from ottla.purgatory.delayed import Delayed
from ottla.purgatory.purgatory import Purgatory

__all__ = ["Delayed", "Purgatory"]
