"""Producer ids: each once, in blocks from the controller, the next block asked for before the last id is gone."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.transactions.producer_ids import ProducerIds
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


@dataclass
class Controller:
    """Hands out blocks when the test says so."""

    asked: list[Delayed[AllocateProducerIdsResponse]] = field(default_factory=list)
    next_start: int = 5_000

    def allocate(self) -> Delayed[AllocateProducerIdsResponse]:
        self.asked.append(Delayed())
        return self.asked[-1]

    def answer(self, error: ErrorCode = ErrorCode.NONE, size: int = 1_000) -> None:
        response = AllocateProducerIdsResponse(error_code=error)
        if error is ErrorCode.NONE:
            response.producer_id_start, response.producer_id_len = self.next_start, size
            self.next_start += size
        self.asked.pop(0).complete(response)


def test_those_who_wait_share_one_request_and_are_served_in_order() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)

    waiting = [ids.take() for _ in range(3)]
    assert len(controller.asked) == 1
    assert not any(delayed.is_complete for delayed in waiting)
    controller.answer()

    assert [delayed.value for delayed in waiting] == [5_000, 5_001, 5_002]


def test_the_next_block_is_asked_for_when_a_tenth_is_left() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    ids.take()
    controller.answer()

    for _ in range(898):
        ids.take()
    assert controller.asked == []
    ids.take()

    assert len(controller.asked) == 1


def test_ids_go_on_from_block_to_block_without_a_gap_or_a_double() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    taken = []
    for _ in range(3_500):
        delayed = ids.take()
        if controller.asked:
            controller.answer()
        taken.append(delayed.value)

    assert taken == list(range(5_000, 8_500))
    assert not any(isinstance(value, ErrorCode) for value in taken)


def test_a_refusal_reaches_everyone_who_waits_and_the_next_one_asks_again() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    waiting = [ids.take(), ids.take()]

    controller.answer(ErrorCode.NOT_CONTROLLER)
    assert [delayed.value for delayed in waiting] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2

    again = ids.take()
    controller.answer()
    assert again.value == 5_000


def test_a_refused_prefetch_costs_nobody_an_id_that_is_there() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    ids.take()
    controller.answer()
    for _ in range(899):
        ids.take()
    controller.answer(ErrorCode.NOT_CONTROLLER)

    assert ids.take().value == 5_900


def test_an_id_is_a_plain_integer_even_where_an_error_has_the_same_number() -> None:
    controller = Controller(next_start=0)
    ids = ProducerIds(allocate_block=controller.allocate)
    first = ids.take()
    controller.answer()

    assert type(first.value) is int
