"""Invariants of consumer groups: committed offsets stay, and no two members own a partition in one generation."""

from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import CONSUMER_OFFSETS_TOPIC, Offset


def may_groups_have_lost_records(state_observer: StateObserver) -> bool:
    """Return whether the partitions with offsets, and with the records of groups, may have lost something."""
    ledgers = state_observer.ledger.partitions()
    return any(ledger.is_excused for ledger in ledgers if ledger.key.topic == CONSUMER_OFFSETS_TOPIC)


class GroupInvariants:
    """Called by the members; each method raises `InvariantViolation`."""

    def __init__(self, state_observer: StateObserver) -> None:
        self._state_observer = state_observer
        self._owners: dict[tuple[str, int, int], str] = {}
        self._committed: dict[tuple[str, int], tuple[int, Offset]] = {}

    def on_owned(self, group: str, generation: int, partition: int, member_id: str) -> None:
        """A member was assigned a partition."""
        if self._is_excused:
            return
        owner = self._owners.setdefault((group, generation, partition), member_id)
        if owner != member_id:
            raise InvariantViolation(
                f"OneOwnerPerGeneration: partition {partition} belongs to {owner} and {member_id} in generation "
                f"{generation} of {group}"
            )

    def on_committed(self, group: str, generation: int, partition: int, offset: Offset) -> None:
        """Note a successful OffsetCommit; a late response to an older generation does not count."""
        before = self._committed.get((group, partition))
        if before is None or before[0] <= generation:
            self._committed[group, partition] = (generation, offset)

    def on_fetched(self, group: str, partition: int, offset: Offset) -> None:
        """Check an OffsetFetch response against the commits."""
        before = self._committed.get((group, partition))
        if before is not None and offset < before[1] and not self._is_excused:
            raise InvariantViolation(
                f"CommittedOffsetsAreNeverLost: {group} has committed {before[1]} for partition {partition} in "
                f"generation {before[0]}, and fetches {offset}"
            )

    @property
    def _is_excused(self) -> bool:
        return may_groups_have_lost_records(self._state_observer)
