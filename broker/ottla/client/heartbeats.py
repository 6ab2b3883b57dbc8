"""`Heartbeats`: joins a group by a `Membership`, and sends the member's heartbeats in a task of their own.

Source: AbstractHeartbeatRequestManager (Kafka 4.3).
"""

import asyncio
import contextlib
from typing import Generic

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, raise_for
from ottla.client.membership import FENCED_CODES, Membership, RequestT, ResponseT
from ottla.errors import KafkaError


class Heartbeats(Generic[RequestT, ResponseT]):
    """See the module.

    Attributes:
        failure: an error of the coordinator that ended the heartbeats; None while they work.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        membership: "Membership[RequestT, ResponseT]",
        response_type: type[ResponseT],
    ) -> None:
        """Set up; `join` sends the first heartbeat."""
        self.failure: KafkaError | None = None
        self._cluster = cluster
        self._group_id = group_id
        self._membership = membership
        self._response_type = response_type
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Join, and send heartbeats from now on.

        Raises:
            KafkaError: an error that is not retriable, such as GROUP_AUTHORIZATION_FAILED.
            ClientError: brokers cannot be reached, or do not serve the protocol.
        """
        await self.stop()
        await self._cluster.retry(self._send, also=FENCED_CODES, group_id=self._group_id)
        self._task = asyncio.create_task(self._send_all())

    def send_soon(self) -> None:
        """Send the next heartbeat at once: the coordinator waits for its content."""
        self._is_due.set()

    async def stop(self) -> None:
        """Send no more heartbeats."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def leave(self) -> None:
        """Leave the group, if this is a member; the coordinator's errors do not matter any more."""
        if not self._membership.is_member:
            return
        request = self._membership.leave_heartbeat()
        self._membership.on_fenced()
        with contextlib.suppress(KafkaError):
            await self._cluster.send_to_coordinator(self._group_id, request, self._response_type)

    async def _send(self) -> None:
        membership = self._membership
        request = membership.next_heartbeat()
        try:
            response = await self._cluster.send_to_coordinator(self._group_id, request, self._response_type)
            raise_for(response.error_code, response.error_message or f"group {self._group_id}")
        except (ClientError, KafkaError) as error:
            membership.on_failure()
            if isinstance(error, KafkaError) and error.code in FENCED_CODES:
                membership.on_fenced()
            raise
        membership.on_response(request, response)

    async def _send_all(self) -> None:
        while self._membership.is_member:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), self._membership.heartbeat_interval_ms / 1000)
            self._is_due.clear()
            try:
                await self._send()
            except ClientError:
                self._cluster.invalidate_coordinator(self._group_id)
            except KafkaError as error:
                if error.code.is_retriable:
                    self._cluster.invalidate_coordinator(self._group_id)
                elif error.code not in FENCED_CODES:
                    self.failure = error
                    return
