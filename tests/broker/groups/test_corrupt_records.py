"""Corrupt records of ``__consumer_offsets``: skipped, with the state as it was before; the group is served."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corrupt_batches import change_bytes, each_corrupt_batch, parse_log
from group_partition import PARTITION, encode_batch, error_of_commit
from ottla.errors import ErrorCode
from ottla.groups.log import (
    GROUP_RECORD_SERDE,
    GroupRecord,
    decode,
    encode,
    group_metadata_record,
    offset_commit_record,
)
from ottla.wire.messages.group_log import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.records import Record, build_batch

GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="m",
    members=[MemberMetadata(member_id="m", client_id="c", client_host="h", session_timeout=10_000)],
)
SOUND_KEY, SOUND_VALUE = encode(group_metadata_record("g", GROUP))
assert SOUND_VALUE is not None
OFFSET_KEY, OFFSET_VALUE = encode(offset_commit_record("g", "t", 0, OffsetCommitValue(offset=9)))
assert OFFSET_VALUE is not None


def offset(partition: int, committed: int) -> bytes:
    return encode_batch(
        [offset_commit_record("g", "t", partition, OffsetCommitValue(offset=committed))], timestamp_ms=0
    )


def raw(key: bytes, value: bytes | None) -> bytes:
    return build_batch([Record(0, 0, key, value)])


def group(**changes: Any) -> bytes:
    return encode_batch([group_metadata_record("g", replace_fields(GROUP, **changes))], timestamp_ms=0)


def replace_fields(value: GroupMetadataValue, **changes: Any) -> GroupMetadataValue:
    stored = decode(*encode(group_metadata_record("g", value)))
    assert stored is not None
    assert isinstance(stored.value, GroupMetadataValue)
    for name, changed in changes.items():
        setattr(stored.value, name, changed)
    return stored.value


def load(node: Any, *batches: bytes) -> None:
    node.log.batches[PARTITION] = parse_log(*batches)
    node.restart()


@each_corrupt_batch
def test_corrupt_batch_leaves_the_older_offset(
    group_node: Any, caplog: pytest.LogCaptureFixture, corrupt: Callable[[bytes], bytes]
) -> None:
    load(group_node, offset(0, 1), corrupt(offset(0, 2)), offset(1, 3))

    assert group_node.offsets() == {("t", 0): 1, ("t", 1): 3}
    assert error_of_commit(group_node.commit(offset=4).value) is ErrorCode.NONE
    assert f"__consumer_offsets-{PARTITION}: skipped 1 corrupt records or batches" in caplog.text
    assert "offset 1: " in caplog.text


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(raw(b"", None), id="no-type"),
        pytest.param(raw(SOUND_KEY[:-1], SOUND_VALUE), id="truncated-key"),
        pytest.param(raw(SOUND_KEY, b"\0\x63"), id="unknown-version"),
        pytest.param(raw(SOUND_KEY, SOUND_VALUE[:-1]), id="truncated-value"),
        pytest.param(raw(SOUND_KEY, SOUND_VALUE + b"\0"), id="bytes-after-the-value"),
        pytest.param(raw(SOUND_KEY, OFFSET_VALUE), id="value-of-an-offset"),
        pytest.param(raw(OFFSET_KEY, OFFSET_VALUE[:-1]), id="truncated-offset"),
        pytest.param(group(members=GROUP.members * 2), id="member-twice"),
        pytest.param(group(leader="other"), id="leader-is-no-member"),
        pytest.param(group(protocol=None), id="members-without-protocol"),
        pytest.param(group(generation=-7), id="negative-generation"),
    ],
)
def test_corrupt_record_leaves_group_and_offsets(
    group_node: Any, caplog: pytest.LogCaptureFixture, corrupt: bytes
) -> None:
    load(group_node, group(), offset(0, 1))
    before = group_node.describe()

    load(group_node, group(), offset(0, 1), corrupt, offset(1, 3))

    assert group_node.describe() == before
    assert group_node.offsets() == {("t", 0): 1, ("t", 1): 3}
    assert group_node.heartbeat("m", 7) is ErrorCode.NONE
    assert f"__consumer_offsets-{PARTITION}: skipped 1 corrupt records or batches" in caplog.text
    assert "offset 2: " in caplog.text


def test_node_that_restarts_with_a_corrupt_record_serves_each_time(group_node: Any) -> None:
    load(group_node, raw(SOUND_KEY, b"\0\x63"))

    for committed in (1, 2, 3):
        group_node.commit(offset=committed)
        group_node.restart()
        assert group_node.offsets() == {("t", 0): committed}


def random_records(source: random.Random) -> Iterator[bytes]:
    """Yield records with some random bytes, or truncated, in batches that are sound."""
    for number in range(300):
        member = MemberMetadata(member_id=f"m{number}", client_id="c", client_host="h", session_timeout=10_000)
        stored: GroupRecord = group_metadata_record(
            f"g{number % 20}", replace_fields(GROUP, leader=member.member_id, members=[member])
        )
        if number % 3 == 0:
            stored = offset_commit_record("g", "t", number, OffsetCommitValue(offset=number))
        key, value = GROUP_RECORD_SERDE.encode(stored)
        assert value is not None
        yield raw(*(change_bytes(source, part) for part in (key, value)))


@pytest.mark.parametrize("seed", range(10))
def test_partition_with_random_bytes_is_served(group_node: Any, seed: int) -> None:
    load(group_node, *random_records(random.Random(seed)), offset(2, 3))

    assert group_node.offsets()["t", 2] == 3
    groups = group_node.call(ListGroupsRequest(), 5).value.groups
    for listed in groups:
        group_node.describe(listed.group_id)
        group_node.join(listed.group_id)
    group_node.advance(120_000)
    assert error_of_commit(group_node.commit(group="g").value) in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
