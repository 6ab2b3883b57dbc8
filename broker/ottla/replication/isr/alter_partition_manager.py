"""`AlterPartitionManager`: sends leaders' proposals of in-sync sets to the controller, many in one request.

One request is in flight at a time; proposals made meanwhile go with the next one. So do those beyond `SENT_MAX`: the
event loop builds a request, and processes its response, in one stretch. A proposal is kept until the controller has
responded to it, or its leader has dropped it. Source: DefaultAlterPartitionManager of Apache Kafka 4.3, whose requests
have no such bound.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.ports import Clock
from ottla.replication.isr.isr_change import IsrChange
from ottla.replication.peer_brokers import PeerBrokers
from ottla.types import NEVER_MS, NodeId, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

logger = logging.getLogger(__name__)

RETRY_MS = 50
SENT_MAX = 250
"""Partitions of a request: its response takes the loop five milliseconds."""
RECOVERED = 0

_Key = tuple[Uuid, int]


class _Proposal(NamedTuple):
    change: IsrChange
    is_wanted: Callable[[], bool]
    on_response: Callable[[AlterPartitionResponsePartitionData], object]


class AlterPartitionManager:
    """See the module. `tick` sends: what one event proposes for many partitions goes in one request.

    ``on_all_responses`` is called after each response of the controller, when every proposal in it has been notified.
    """

    def __init__(
        self, *, node_id: NodeId, peer_brokers: PeerBrokers, clock: Clock, on_all_responses: Callable[[], object]
    ) -> None:
        self._node_id = node_id
        self._peer_brokers = peer_brokers
        self._clock = clock
        self._on_all_responses = on_all_responses
        self._proposals: dict[_Key, _Proposal] = {}
        self._is_in_flight = False
        self._retry_at_ms = 0
        self.due_ms = NEVER_MS
        """When `tick` sends a request."""
        self.failed_updates = 0

    def __len__(self) -> int:
        return len(self._proposals)

    def propose(
        self,
        change: IsrChange,
        *,
        is_wanted: Callable[[], bool],
        on_response: Callable[[AlterPartitionResponsePartitionData], object],
    ) -> None:
        """Queue ``change``; ``on_response`` gets the controller's response for this partition, also an error.

        A later proposal for the same partition replaces one that is not wanted any more.
        """
        self._proposals[change.topic_id, change.partition] = _Proposal(change, is_wanted, on_response)
        self._plan()

    def back_off(self) -> None:
        """Delay the next request: the controller could not process the last one."""
        self._retry_at_ms = self._clock.monotonic_ms() + RETRY_MS
        self._plan()

    def tick(self, now_ms: int) -> None:
        if now_ms >= self.due_ms:
            self._send()

    def _plan(self) -> None:
        self.due_ms = self._retry_at_ms if self._proposals and not self._is_in_flight else NEVER_MS

    def _send(self) -> None:
        sent: dict[_Key, _Proposal] = {}
        for key, proposal in list(self._proposals.items()):
            if not proposal.is_wanted():
                del self._proposals[key]
                continue
            sent[key] = proposal
            if len(sent) == SENT_MAX:
                break
        self._is_in_flight = bool(sent)
        self._plan()
        if not sent:
            return
        topics: dict[Uuid, AlterPartitionRequestTopicData] = {}
        for (topic_id, _), proposal in sent.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = AlterPartitionRequestTopicData(topic_id=topic_id)
            topic.partitions.append(_request_of(proposal.change))
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._peer_brokers.broker_epoch(), topics=list(topics.values())
        )
        self._peer_brokers.send_to_controller(request).on_complete(lambda response: self._on_response(sent, response))

    def _on_response(self, sent: dict[_Key, _Proposal], response: Message) -> None:
        self._is_in_flight = False
        code = response.error_code if isinstance(response, AlterPartitionResponse) else ErrorCode.UNKNOWN_SERVER_ERROR
        if code != ErrorCode.NONE:
            self.failed_updates += len(sent)
            self.back_off()
            logger.debug("the controller rejected %d changes of ISRs: %s", len(sent), ErrorCode(code).name)
            return
        assert isinstance(response, AlterPartitionResponse)
        by_key = {
            (topic.topic_id, data.partition_index): data for topic in response.topics for data in topic.partitions
        }
        rejected: Counter[str] = Counter()
        for key, proposal in sent.items():
            data = by_key.get(key)
            if data is None:
                self._send_later(key)
                continue
            if self._proposals.get(key) is proposal:
                del self._proposals[key]
            if data.error_code != ErrorCode.NONE:
                rejected[ErrorCode(data.error_code).name] += 1
            proposal.on_response(data)
        self.failed_updates += rejected.total()
        for name, count in sorted(rejected.items()):
            # One line per error: after a restart there may be thousands of changes.
            logger.info("the controller rejected %d of %d changes of ISRs: %s", count, len(sent), name)
        self._plan()
        self._on_all_responses()

    def _send_later(self, key: _Key) -> None:
        """Send the proposal of ``key`` again, behind all others."""
        self.back_off()
        proposal = self._proposals.pop(key, None)
        if proposal is not None:
            self._proposals[key] = proposal


def _request_of(change: IsrChange) -> AlterPartitionRequestPartitionData:
    return AlterPartitionRequestPartitionData(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=broker_id, broker_epoch=epoch)
            for broker_id, epoch in zip(change.isr, change.broker_epochs, strict=True)
        ],
        leader_recovery_state=RECOVERED,
        partition_epoch=change.partition_epoch,
    )
