"""Acknowledgements of a member of a share group: by offset, as the requests list them."""

from ottla.client.acknowledgements import Acknowledgements
from ottla.wire.acknowledge_type import AcknowledgeType

ACCEPT, RELEASE, REJECT, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
)


def taken(acknowledgements: Acknowledgements) -> list[tuple[int, int, list[int]]]:
    return [(each.first_offset, each.last_offset, each.acknowledge_types) for each in acknowledgements.take()]


def test_records_are_released_and_offsets_without_a_record_are_gaps() -> None:
    acknowledgements = Acknowledgements()

    acknowledgements.acquire(range(10, 14), [10, 11, 13])

    assert taken(acknowledgements) == [(10, 13, [RELEASE, RELEASE, GAP, RELEASE])]
    assert taken(acknowledgements) == []


def test_one_type_stands_for_all_offsets_of_a_batch() -> None:
    acknowledgements = Acknowledgements()

    acknowledgements.acquire(range(3), range(3))
    acknowledgements.acquire(range(5, 7), range(5, 7))

    assert taken(acknowledgements) == [(0, 2, [RELEASE]), (5, 6, [RELEASE])]


def test_decisions_replace_the_release() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.acquire(range(3), range(3))

    acknowledgements.decide(1, ACCEPT)
    acknowledgements.decide(2, REJECT)

    assert taken(acknowledgements) == [(0, 2, [RELEASE, ACCEPT, REJECT])]
