"""Configs of topics, brokers, groups and client metrics, as an administrator handles them."""

import asyncio
from collections.abc import Mapping, Sequence

from ottla.client.admin_base import AdminBase
from ottla.client.connection import ResponseT
from ottla.client.errors import ClientError, raise_for
from ottla.client.results import ConfigEntry
from ottla.config.alter import AlterOperation
from ottla.config.layers import ConfigSource
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.types import NodeId
from ottla.wire.codec import Message
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ConfigAdmin(AdminBase):
    """Calls about configs."""

    async def describe_configs(
        self, resource_type: ConfigResourceType, name: str, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return every config of one resource, sorted by key.

        Args:
            resource_type: which kind of resource.
            name: the topic, group or subscription; for BROKER the id, or ``""`` for the cluster-wide defaults.
            documentation: also request the documentation of each key.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist, ...
        """
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
            ],
            include_synonyms=True,
            include_documentation=documentation,
        )

        async def attempt() -> list[ConfigEntry]:
            response = await self._send_for_resource(resource_type, name, request, DescribeConfigsResponse)
            entries = []
            for result in response.results:
                raise_for(result.error_code, result.error_message)
                entries += [_entry(config) for config in result.configs]
            return sorted(entries, key=lambda entry: entry.name)

        return await self._retry(attempt)

    async def describe_own_broker_configs(self, node_ids: Sequence[NodeId]) -> dict[NodeId, dict[str, str]]:
        """Return per broker the configs set on it alone; each broker is queried, an absent one is left out.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED, ...
        """

        async def describe(node_id: NodeId) -> dict[str, str] | None:
            try:
                entries = await self.describe_configs(ConfigResourceType.BROKER, str(node_id))
            except ClientError:
                return None
            own = ConfigSource.DYNAMIC_BROKER_CONFIG.name
            return {entry.name: entry.value or "" for entry in entries if entry.source == own}

        configs = await asyncio.gather(*map(describe, node_ids))
        return {node_id: own for node_id, own in zip(node_ids, configs, strict=True) if own is not None}

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return per topic the configs that are set on the topic itself; topics that do not exist are absent.

        Raises:
            KafkaError: any error but UNKNOWN_TOPIC_OR_PARTITION.
        """
        if not names:
            return {}
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=ConfigResourceType.TOPIC, resource_name=name, configuration_keys=None
                )
                for name in names
            ]
        )

        async def attempt() -> dict[str, dict[str, str]]:
            response = await self._send_to_any(request, DescribeConfigsResponse)
            configs = {}
            for result in response.results:
                if result.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                    continue
                raise_for(result.error_code, result.error_message)
                configs[result.resource_name] = {
                    config.name: config.value or ""
                    for config in result.configs
                    if config.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
                }
            return configs

        return await self._retry(attempt)

    async def describe_topic_config(self, names: Sequence[str], key: str) -> dict[str, str]:
        """Return per topic the effective value of one config; topics that do not exist are absent.

        Raises:
            KafkaError: any error but UNKNOWN_TOPIC_OR_PARTITION.
        """
        if not names:
            return {}
        resources = [
            DescribeConfigsResource(
                resource_type=ConfigResourceType.TOPIC, resource_name=name, configuration_keys=[key]
            )
            for name in names
        ]

        async def attempt() -> dict[str, str]:
            response = await self._send_to_any(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
            values = {}
            for result in response.results:
                if result.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                    continue
                raise_for(result.error_code, result.error_message)
                for config in result.configs:
                    values[result.resource_name] = config.value or ""
            return values

        return await self._retry(attempt)

    async def alter_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        *,
        upserts: Mapping[str, str] | None = None,
        deletions: Sequence[str] = (),
        appends: Mapping[str, str] | None = None,
        subtractions: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change configs of one resource in one step: all or nothing.

        Args:
            resource_type: as in `describe_configs`, as is ``name``.
            name: of the resource.
            upserts: keys and their new values.
            deletions: keys to reset to the inherited value.
            appends: keys of lists and entries to add.
            subtractions: keys of lists and entries to remove.
            validate_only: only check.

        Raises:
            KafkaError: INVALID_CONFIG with the broker's reason, UNKNOWN_TOPIC_OR_PARTITION, ...
        """
        by_operation = (
            (AlterOperation.SET, upserts or {}),
            (AlterOperation.DELETE, dict.fromkeys(deletions)),
            (AlterOperation.APPEND, appends or {}),
            (AlterOperation.SUBTRACT, subtractions or {}),
        )
        configs = [
            AlterableConfig(name=key, config_operation=operation, value=value)
            for operation, changes in by_operation
            for key, value in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            response = await self._send_for_resource(resource_type, name, request, IncrementalAlterConfigsResponse)
            for result in response.responses:
                raise_for(result.error_code, result.error_message)

        await self._retry(attempt)

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        """Set and unset a topic's configs in one step; raises as `alter_configs`."""
        await self.alter_configs(
            ConfigResourceType.TOPIC, name, upserts=upserts, deletions=deletions, validate_only=validate_only
        )

    async def _send_for_resource(
        self, resource_type: ConfigResourceType, name: str, request: Message, response_type: type[ResponseT]
    ) -> ResponseT:
        """Send a request about a broker to that broker, any other request to any broker."""
        if resource_type not in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) or not name:
            return await self._send_to_any(request, response_type)
        if not name.isdigit():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is not the id of a broker, which is a number")
        return await self.cluster.send_to_node(int(name), request, response_type)


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_source_name(config.config_source),
        read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        synonyms=tuple((synonym.name, synonym.value, _source_name(synonym.source)) for synonym in config.synonyms),
        documentation=config.documentation or None,
    )


def _source_name(source: int) -> str:
    try:
        return ConfigSource(source).name
    except ValueError:
        return ConfigSource.UNKNOWN.name
