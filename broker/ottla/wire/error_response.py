"""The error response to a whole request, with the error in every part of it: for each API of the controller.

Source: AbstractRequest.getErrorResponse of the requests in Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Any

from ottla.errors import KafkaError
from ottla.wire.codec import Message
from ottla.wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
)
from ottla.wire.messages.registry import ApiKey, response_type


def error_response(request: Message, error: KafkaError) -> Message:
    """Return the response to ``request`` that has ``error`` in every error field."""
    build = _BUILDERS.get(type(request))
    made = bare_error_response(request.api_key, error) if build is None else build(request, error)
    assert made is not None, f"{type(request).__name__} needs a builder"
    return made


def bare_error_response(api_key: int, error: KafkaError) -> Message | None:
    """Return a response with only ``error``; None if the API has no field for it."""
    made = response_type(ApiKey(api_key))()
    if "error_code" not in made.fields:
        return None
    made.error_code = error.code  # type: ignore[attr-defined]
    if "error_message" in made.fields:
        made.error_message = error.message  # type: ignore[attr-defined]
    return made


def _create_topics(request: create_topics.CreateTopicsRequest, error: KafkaError) -> Message:
    return create_topics.CreateTopicsResponse(
        topics=[
            create_topics.CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _delete_topics(request: delete_topics.DeleteTopicsRequest, error: KafkaError) -> Message:
    named = [delete_topics.DeleteTopicState(name=name) for name in request.topic_names] + request.topics
    return delete_topics.DeleteTopicsResponse(
        responses=[
            delete_topics.DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
            )
            for topic in named
        ]
    )


def _alter_partition_reassignments(
    request: alter_partition_reassignments.AlterPartitionReassignmentsRequest, error: KafkaError
) -> Message:
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=error.code, error_message=error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_partition_reassignments(
    request: list_partition_reassignments.ListPartitionReassignmentsRequest, error: KafkaError
) -> Message:
    return list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            list_partition_reassignments.OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    list_partition_reassignments.OngoingPartitionReassignment(partition_index=partition)
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ],
    )


def _create_partitions(request: create_partitions.CreatePartitionsRequest, error: KafkaError) -> Message:
    return create_partitions.CreatePartitionsResponse(
        results=[
            create_partitions.CreatePartitionsTopicResult(
                name=topic.name, error_code=error.code, error_message=error.message
            )
            for topic in request.topics
        ]
    )


def _alter_configs(request: alter_configs.AlterConfigsRequest, error: KafkaError) -> Message:
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, error: KafkaError
) -> Message:
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _alter_client_quotas(request: alter_client_quotas.AlterClientQuotasRequest, error: KafkaError) -> Message:
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.AlterClientQuotasResponseEntryData(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    alter_client_quotas.AlterClientQuotasResponseEntityData(
                        entity_type=each.entity_type, entity_name=each.entity_name
                    )
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _create_acls(request: create_acls.CreateAclsRequest, error: KafkaError) -> Message:
    return create_acls.CreateAclsResponse(
        results=[
            create_acls.AclCreationResult(error_code=error.code, error_message=error.message) for _ in request.creations
        ]
    )


def _delete_acls(request: delete_acls.DeleteAclsRequest, error: KafkaError) -> Message:
    return delete_acls.DeleteAclsResponse(
        filter_results=[
            delete_acls.DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            for _ in request.filters
        ]
    )


def _alter_user_scram_credentials(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, error: KafkaError
) -> Message:
    names = [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials.AlterUserScramCredentialsResult(
                user=name, error_code=error.code, error_message=error.message
            )
            for name in dict.fromkeys(names)
        ]
    )


def _elect_leaders(request: elect_leaders.ElectLeadersRequest, error: KafkaError) -> Message:
    return elect_leaders.ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=partition, error_code=error.code, error_message=error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ],
    )


_BUILDERS: dict[type[Message], Callable[[Any, KafkaError], Message]] = {
    alter_client_quotas.AlterClientQuotasRequest: _alter_client_quotas,
    alter_configs.AlterConfigsRequest: _alter_configs,
    alter_partition_reassignments.AlterPartitionReassignmentsRequest: _alter_partition_reassignments,
    alter_user_scram_credentials.AlterUserScramCredentialsRequest: _alter_user_scram_credentials,
    list_partition_reassignments.ListPartitionReassignmentsRequest: _list_partition_reassignments,
    create_acls.CreateAclsRequest: _create_acls,
    create_partitions.CreatePartitionsRequest: _create_partitions,
    create_topics.CreateTopicsRequest: _create_topics,
    delete_acls.DeleteAclsRequest: _delete_acls,
    delete_topics.DeleteTopicsRequest: _delete_topics,
    elect_leaders.ElectLeadersRequest: _elect_leaders,
    incremental_alter_configs.IncrementalAlterConfigsRequest: _incremental_alter_configs,
}
"""Builders for the APIs whose responses have nested errors."""
