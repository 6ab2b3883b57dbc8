"""The permissions of this user on the cluster, and on the named topics and groups."""

from collections.abc import AsyncIterator, Sequence

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.client.security import ClientSecurity
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.acl_codes import Operation, code_word
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


async def check_permissions(
    cluster: Cluster, security: ClientSecurity, topics: Sequence[str], groups: Sequence[str]
) -> AsyncIterator[Finding]:
    """Yield the permissions; a topic with neither read nor write permission, or a group without read, is a failure."""
    who = security.login.user if security.login is not None and security.login.user else "NAME"
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    described = await cluster.send_to_any(request, DescribeClusterResponse, timeout_s=cluster.request_timeout_s)
    allowed = operations(described.cluster_authorized_operations)
    said = f"this user may {_in_words(allowed)}" if allowed else "this user may do nothing with the cluster as a whole"
    yield Finding(check="permissions", subject="the cluster", status=Status.OK, said=said)
    for topic in topics:
        yield await _topic(cluster, topic, who)
    for group in groups:
        yield await _group(cluster, group, who)


async def _topic(cluster: Cluster, name: str, who: str) -> Finding:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    entry = (await cluster.send_to_any(request, MetadataResponse, timeout_s=cluster.request_timeout_s)).topics[0]
    subject = f"topic {name}"
    allow = f"as an administrator: ottla acl add User:{who} --allow read --topic {name} (or --allow write)"
    if entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        step = f"check the name (ottla topic list), or: ottla topic create {name}"
        return _failed(subject, Status.UNHEALTHY, "there is no such topic", step)
    allowed = operations(entry.topic_authorized_operations)
    if entry.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED or not allowed:
        return _failed(subject, Status.DENIED, "this user may do nothing with it, not even see it", allow)
    said = f"this user may {_in_words(allowed)}"
    if not {Operation.READ, Operation.WRITE} & set(allowed):
        return _failed(subject, Status.DENIED, f"{said}, but neither read nor write", allow)
    return Finding(check="permissions", subject=subject, status=Status.OK, said=said)


async def _group(cluster: Cluster, name: str, who: str) -> Finding:
    request = DescribeGroupsRequest(groups=[name], include_authorized_operations=True)
    subject = f"group {name}"
    step = f"as an administrator: ottla acl add User:{who} --allow read --group {name}"

    async def describe() -> DescribedGroup:
        # From version 6 on nothing is returned about a group that has no member and no offset yet.
        response = await cluster.send_to_coordinator(
            name, request, DescribeGroupsResponse, highest=5, timeout_s=cluster.request_timeout_s
        )
        entry = response.groups[0]
        raise_for(entry.error_code)
        return entry

    try:
        entry = await cluster.retry(describe, group_id=name)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return _failed(subject, Status.DENIED, "this user may do nothing with it", step)
    allowed = operations(entry.authorized_operations)
    said = f"this user may {_in_words(allowed)}"
    if Operation.READ not in allowed:
        return _failed(subject, Status.DENIED, f"{said}, but not read, which members need", step)
    return Finding(check="permissions", subject=subject, status=Status.OK, said=said)


def operations(bits: int) -> list[Operation]:
    """Return the operations of Kafka's bit field (KIP-430); none if the broker did not return it."""
    return [operation for operation in Operation if bits > 0 and bits >> operation & 1]


def _in_words(allowed: Sequence[Operation]) -> str:
    return ", ".join(map(code_word, allowed))


def _failed(subject: str, status: Status, said: str, next_step: str) -> Finding:
    return Finding(check="permissions", subject=subject, status=status, said=said, next_step=next_step)
