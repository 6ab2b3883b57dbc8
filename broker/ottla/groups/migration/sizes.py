"""How large groups are converted: in slices, up to the one batch that replaces the group.

Measured for 1,000 members: converting them takes some 30 ms, encoding their records 20 ms. Members that subscribe to
thousands of topics take milliseconds each, so that a group is large by its members or by their bytes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from ottla.groups.classic.member import ClassicMember
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.log import GroupRecord, encode
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps

CONVERTED_IN_PLACE_MAX: Final = 32
"""Members of a group that is converted at once, within 2 ms."""
BYTES_IN_PLACE_MAX: Final = 16 * 1024
"""What these members have by `size_of_classic` or `size_of_consumer`: 10 topics and two protocols each."""
_RECORDS_PER_STEP: Final = 32
_BYTES_PER_STEP: Final = 4096
_BYTES_PER_PARTITION: Final = 4

MemberT = TypeVar("MemberT")


def size_of_classic(member: ClassicMember) -> int:
    """Return how many bytes of the member have to be read, with those that are only copied."""
    return len(member.assignment) + sum(len(protocol.metadata) for protocol in member.protocols)


def size_of_consumer(member: ConsumerMember) -> int:
    """Return how many bytes of the member have to be read and written."""
    assigned = _BYTES_PER_PARTITION * sum(map(len, member.assigned.values()))
    if member.classic is None:
        return assigned
    return assigned + sum(len(protocol.metadata) for protocol in member.classic.supported_protocols)


def fits_in_place(sizes: Iterable[int]) -> bool:
    """Return whether a group whose members have these sizes is converted at once."""
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        if count > CONVERTED_IN_PLACE_MAX or total > BYTES_IN_PLACE_MAX:
            return False
    return True


def portions(members: Iterable[MemberT], size_of: Callable[[MemberT], int]) -> Iterator[list[MemberT]]:
    """Return the members, in order, in portions of one step; a member that is larger than a step is alone in one."""
    portion: list[MemberT] = []
    total = 0
    for member in members:
        size = size_of(member)
        if portion and (len(portion) == ITEMS_PER_STEP or total + size > _BYTES_PER_STEP):
            yield portion
            portion, total = [], 0
        portion.append(member)
        total += size
    if portion:
        yield portion


def encoded_in_steps(records: Iterable[GroupRecord]) -> Steps[list[GroupRecord]]:
    """Return the records with their bytes; ``records`` may be built as they are read."""
    encoded: list[GroupRecord] = []
    count = size = 0
    for record in records:
        data = encode(record)
        encoded.append(replace(record, encoded=data))
        count += 1
        size += len(data[1] or b"")
        if count == _RECORDS_PER_STEP or size > _BYTES_PER_STEP:
            count = size = 0
            yield None
    return encoded
