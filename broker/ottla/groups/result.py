"""`GroupResult`: records of ``__consumer_offsets`` that no response of the operation itself waits for.

The response to a JoinGroup or SyncGroup comes by a later event: the end of a phase of the rebalance, or ``on_append``.
"""

from typing import TypeAlias

from ottla.coordinator.result import CoordinatorResult
from ottla.groups.log import GroupRecord

GroupResult: TypeAlias = CoordinatorResult[GroupRecord, None]
