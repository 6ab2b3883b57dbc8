"""Producer ids: each once, from blocks of the controller, which are requested before the last id is used."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.transactions.producer_ids import ProducerIds
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


@dataclass
class Controller:
    """Allocates a block when `respond` is called."""

    requests: list[Delayed[AllocateProducerIdsResponse]] = field(default_factory=list)
    next_start: int = 5_000

    def allocate(self) -> Delayed[AllocateProducerIdsResponse]:
        self.requests.append(Delayed())
        return self.requests[-1]

    def respond(self, error: ErrorCode = ErrorCode.NONE, size: int = 1_000) -> None:
        response = AllocateProducerIdsResponse(error_code=error)
        if error is ErrorCode.NONE:
            response.producer_id_start, response.producer_id_len = self.next_start, size
            self.next_start += size
        self.requests.pop(0).complete(response)


def test_waiting_calls_share_one_request_and_complete_in_order() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)

    waiting = [ids.generate() for _ in range(3)]
    assert len(controller.requests) == 1
    assert not any(delayed.is_complete for delayed in waiting)
    controller.respond()

    assert [delayed.value for delayed in waiting] == [5_000, 5_001, 5_002]


def test_next_block_is_requested_when_a_tenth_is_left() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    ids.generate()
    controller.respond()

    for _ in range(898):
        ids.generate()
    assert controller.requests == []
    ids.generate()

    assert len(controller.requests) == 1


def test_ids_continue_across_blocks_without_gaps_or_duplicates() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    taken = []
    for _ in range(3_500):
        delayed = ids.generate()
        if controller.requests:
            controller.respond()
        taken.append(delayed.value)

    assert taken == list(range(5_000, 8_500))
    assert not any(isinstance(value, ErrorCode) for value in taken)


def test_failed_request_fails_all_waiting_calls_and_the_next_call_requests_again() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    waiting = [ids.generate(), ids.generate()]

    controller.respond(ErrorCode.NOT_CONTROLLER)
    assert [delayed.value for delayed in waiting] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2

    again = ids.generate()
    controller.respond()
    assert again.value == 5_000


def test_failed_prefetch_leaves_the_rest_of_the_block_usable() -> None:
    controller = Controller()
    ids = ProducerIds(allocate_block=controller.allocate)
    ids.generate()
    controller.respond()
    for _ in range(899):
        ids.generate()
    controller.respond(ErrorCode.NOT_CONTROLLER)

    assert ids.generate().value == 5_900


def test_id_is_a_plain_integer_even_if_an_error_code_has_the_same_number() -> None:
    controller = Controller(next_start=0)
    ids = ProducerIds(allocate_block=controller.allocate)
    first = ids.generate()
    controller.respond()

    assert type(first.value) is int
