"""Commands of recorded scenarios of share groups, as requests to a group coordinator."""

from collections.abc import Callable
from typing import Any

from group_requests import REQUESTS, Command, Names, group_of, groups_of, subscription_of
from ottla.wire.codec import Message
from ottla.wire.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    share_group_heartbeat,
)
from streams_requests import streams_beat, streams_describe


def share_beat(command: Command, names: Names) -> tuple[Message, int]:
    """Send a heartbeat; without ``topics`` and ``rack`` it says that these have not changed."""
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=group_of(command, names),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        member_epoch=int(command.get("epoch", "0")),
        rack_id=command.text("rack") if "rack" in command.options else None,
        subscribed_topic_names=subscription_of(command),
    ), 1


def share_describe(command: Command, names: Names) -> tuple[Message, int]:
    return share_group_describe.ShareGroupDescribeRequest(group_ids=groups_of(command, names)), 1


def share_offsets(command: Command, names: Names) -> tuple[Message, int]:
    """Describe offsets of ``topics`` (``t:0:1,u:0``), or of all."""
    topics = None
    if "topics" in command.options:
        topics = [
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=[int(index) for index in rest.split(":") if index]
            )
            for topic, rest in command.pairs("topics")
        ]
    group = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
        group_id=group_of(command, names), topics=topics
    )
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[group]), command.version(1)


def share_alter(command: Command, names: Names) -> tuple[Message, int]:
    """Set offsets: ``t:0=5:1=7,u:0=1``."""
    topics = [
        alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
                    partition_index=int(part.partition("=")[0]), start_offset=int(part.partition("=")[2])
                )
                for part in rest.split(":")
                if part
            ],
        )
        for topic, rest in command.pairs("topics")
    ]
    group_id = group_of(command, names)
    return alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics), 0


def share_delete(command: Command, names: Names) -> tuple[Message, int]:
    topics = [
        delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=topic)
        for topic, _ in command.pairs("topics")
    ]
    group_id = group_of(command, names)
    return delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=topics), 0


ALL_REQUESTS: dict[str, Callable[[Command, Names], tuple[Message, int]]] = {
    **REQUESTS,
    "share_heartbeat": share_beat,
    "share_describe": share_describe,
    "share_offsets": share_offsets,
    "share_alter": share_alter,
    "share_delete": share_delete,
    "streams_heartbeat": streams_beat,
    "streams_describe": streams_describe,
}


def send_command(driver: Any, line: str) -> None:
    """Send the request of one command; the driver collects the response."""
    command = Command(line)
    request, version = ALL_REQUESTS[command.api](command, driver.names)
    driver.send(command.client, request, version)


def send(driver: Any, line: str) -> Any:
    """Send one request; return its response, None if it is delayed."""
    send_command(driver, line)
    responses = driver.responses()
    return responses[0][1] if responses else None
