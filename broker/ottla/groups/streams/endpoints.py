"""The partitions of each user endpoint of a group: members query each other's state by them.

Source: StreamsGroup.buildEndpointToPartitions of Apache Kafka 4.3; KIP-1071.
"""

from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.streams.group import EndpointOfMember, StreamsGroup
from ottla.groups.streams.topics.endpoints import partitions_of_endpoint
from ottla.purgatory.steps import Steps
from ottla.wire.messages.streams_group_heartbeat import EndpointToPartitions
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponseEndpoint as Endpoint


def partitions_by_endpoint(group: StreamsGroup, topics: ClusterTopics) -> Steps[list[EndpointToPartitions]]:
    """Return the partitions of the members with an endpoint; none while source topics of the topology are missing.

    Kafka responds UNKNOWN_SERVER_ERROR while source topics are missing.
    """
    partitions: list[EndpointToPartitions] = []
    for member in list(group.members.values()):
        configured = group.configured
        if member.user_endpoint is None or configured is None or configured.subtopologies is None:
            continue
        known = group.endpoints.get(member.member_id)
        if known is None or known.member is not member or known.configured is not configured:
            host, port = member.user_endpoint
            active, standby = partitions_of_endpoint(
                member.assigned.active, member.assigned.standby, configured, topics
            )
            computed = EndpointToPartitions(
                user_endpoint=Endpoint(host=host, port=port), active_partitions=active, standby_partitions=standby
            )
            known = EndpointOfMember(member, configured, computed)
            if member.member_id in group.members:
                # It may have left since the first step.
                group.endpoints[member.member_id] = known
            yield None
        partitions.append(known.partitions)
    return partitions
