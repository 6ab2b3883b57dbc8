"""`ProducerIdControl`: blocks of producer ids, each given to one broker and never to another.

Source: ProducerIdControlManager of Apache Kafka; KIP-730.
"""

from typing import Final

from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.records import MetadataRecord
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.metadata_log import ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
_LAST_ID: Final = (1 << 63) - 1


class ProducerIdControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def allocate(self, request: AllocateProducerIdsRequest) -> ControllerResult[AllocateProducerIdsResponse]:
        """Allocate the next block to a registered broker.

        Raises:
            KafkaError: STALE_BROKER_EPOCH, also of a broker that is not registered; UNKNOWN_SERVER_ERROR when ids have
                run out.
        """
        broker = self._state.image.cluster.brokers.get(request.broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {request.broker_id} is not registered")
        if broker.epoch != request.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {request.broker_id} has epoch {broker.epoch}, not {request.broker_epoch}",
            )
        first = self._state.image.producer_ids.next_producer_id
        if first > _LAST_ID - BLOCK_SIZE:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
            )
        record = ProducerIdsRecord(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
        )
        response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
        return ControllerResult(response, [MetadataRecord(record, 0)])
