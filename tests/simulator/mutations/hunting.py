"""The hunt for a mutation: it is applied, and run after run is executed until one shows what it broke.

Catalogs of mutations use it in tests and as programs.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

SetAttribute: TypeAlias = Callable[[Any, str, Any], None]
Apply: TypeAlias = Callable[[SetAttribute], None]


class Outcome(Protocol):
    """How a run ended; ``failure`` is None if every invariant held."""

    @property
    def failure(self) -> str | None: ...


class Mutation(Protocol):
    """An invariant that is broken by replacing functions."""

    @property
    def name(self) -> str: ...

    @property
    def apply(self) -> Apply: ...

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds to try, in order."""

    def runs(self, seed: int) -> Iterator[Any]:
        """Yield the runs of one seed, each executed when its `Outcome` is requested."""

    def place(self, outcome: Any) -> str:
        """Describe the run of the outcome."""


@contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    """Apply the mutation within the block."""
    undo: list[tuple[Any, str, Any]] = []

    def set_attribute(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    mutation.apply(set_attribute)
    try:
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def hunt(mutation: Mutation) -> Any | None:
    """Run until one run fails; return its `Outcome`, or None if none did."""
    with applied(mutation):
        for seed in mutation.seeds:
            for outcome in mutation.runs(seed):
                if outcome.failure is not None:
                    return outcome
    return None


def measure(mutations: Iterable[Mutation]) -> None:
    """Print how soon each is found, as rows of a table of docs/simulator.md; words of the command line choose some."""
    wanted = sys.argv[1:]
    for mutation in mutations:
        if wanted and not any(word in mutation.name for word in wanted):
            continue
        started = time.process_time()
        outcome = hunt(mutation)
        seconds = time.process_time() - started
        if outcome is None:
            print(f"| {mutation.name} | NOT FOUND in {len(mutation.seeds)} | | {seconds:.1f} |", flush=True)
        else:
            by = outcome.failure.partition(":")[0]
            print(f"| {mutation.name} | {mutation.place(outcome)} | {by} | {seconds:.1f} |", flush=True)
            print("    ", outcome.failure[:240], file=sys.stderr, flush=True)
