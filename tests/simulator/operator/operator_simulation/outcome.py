"""Orders of faults for a run, and outcomes of runs."""

from dataclasses import dataclass

from operator_simulation.steps import Moment, StepTaken


@dataclass(frozen=True, slots=True)
class Order:
    """The faults of a run. ``crash_at`` is the step at which some node crashes, a little after its start."""

    kill_at: tuple[int, Moment] | None = None
    crash_at: int | None = None
    troubles: bool = False
    api_faults: bool = False

    def __str__(self) -> str:
        said = []
        if self.kill_at is not None:
            said.append(f"--kill {self.kill_at[0]}:{self.kill_at[1].value}")
        if self.crash_at is not None:
            said.append(f"--crash {self.crash_at}")
        if self.troubles:
            said.append("--troubles")
        if self.api_faults:
            said.append("--api-faults")
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. ``failure`` is None if every invariant held."""

    scenario: str
    seed: int
    order: Order
    failure: str | None
    steps: tuple[StepTaken, ...]
    """Of the change."""
    simulated_ms: int
    change_ms: int
    """From the change of the spec until it was reached."""
    digest: int
    acknowledged: int
    operators: int
    troubles: dict[str, int]
    """Number of faults by kind, including those of the API server."""
    last_events: list[str]

    @property
    def replay_command(self) -> str:
        return f"python -m operator_simulation {self.scenario} --seed {self.seed} {self.order}".rstrip()

    def report(self) -> str:
        """Return a report of a failed run for people."""
        events = "\n".join(self.last_events[-80:])
        return f"{events}\n\n{self.failure}\n\nrepeat it with: {self.replay_command}"
