"""The hunt for a mutation: it is applied, and run after run is executed until one shows what it broke.

Catalogs of mutations use it in tests and as programs.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter
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
    """Apply the mutation within the block.

    Raises:
        TypeError: a function of the mutation cannot be called like the one that it replaces.
    """
    undo: list[tuple[Any, str, Any]] = []

    def set_attribute(owner: Any, name: str, value: Any) -> None:
        original = vars(owner)[name]
        if inspect.isfunction(original) and inspect.isfunction(value):
            _require_same_calls(original, value)
        undo.append((owner, name, original))
        setattr(owner, name, value)

    try:
        mutation.apply(set_attribute)
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def _require_same_calls(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Raise TypeError unless ``replacement`` takes the arguments of ``original``.

    In a run that error would be a violation of NodesNeverRaise: every mutation that has become outdated would be found.
    """
    parameters = inspect.signature(original).parameters.values()
    positional = [
        each.name for each in parameters if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    keywords = {each.name: each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}
    inspect.signature(replacement).bind(*positional, **keywords)


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
