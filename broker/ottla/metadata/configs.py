"""Dynamic configuration: settings of a topic, a broker or a group that override the defaults."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.config.resource_type import ConfigResourceType
from ottla.metadata.records import MetadataRecord
from ottla.wire.messages.metadata_log import ConfigRecord


class ConfigResource(NamedTuple):
    """The owner of a configuration. A BROKER with the name "" stands for every broker."""

    type: ConfigResourceType
    name: str


EVERY_BROKER = ConfigResource(ConfigResourceType.BROKER, "")


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Settings by resource; a resource without any is absent."""

    resources: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the settings of ``resource`` itself; empty when it has none."""
        return self.resources.get(resource, {})

    def of_topic(self, name: str) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.TOPIC, name))

    def of_group(self, group_id: str) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.GROUP, group_id))

    def records(self) -> Iterator[MetadataRecord]:
        for (resource_type, resource_name), settings in sorted(self.resources.items()):
            for name, value in sorted(settings.items()):
                yield MetadataRecord(
                    ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value), 0
                )


class ConfigsDelta:
    """Changes on the way from one `ConfigsImage` to the next: per resource, a value per name, None for a removal."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ConfigsImage) -> None:
        self.image = image
        self.changes: dict[ConfigResource, dict[str, str | None]] = {}

    def replay_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ConfigResourceType(record.resource_type), record.resource_name)
        self.changes.setdefault(resource, {})[record.name] = record.value

    def remove_topic(self, name: str) -> None:
        """Remove a deleted topic's settings: its RemoveTopicRecord stands for them."""
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        if resource in self.image.resources or resource in self.changes:
            changes = self.changes.setdefault(resource, {})
            for key in (*self.image.of(resource), *changes):
                changes[key] = None

    def finish_snapshot(self) -> None:
        """Remove settings that the snapshot does not name."""
        for resource, settings in self.image.resources.items():
            changes = self.changes.setdefault(resource, {})
            for name in settings:
                changes.setdefault(name, None)

    def apply(self) -> ConfigsImage:
        if not self.changes:
            return self.image
        resources = dict(self.image.resources)
        for resource, changes in self.changes.items():
            merged = {**self.image.of(resource), **changes}
            settings = {name: value for name, value in merged.items() if value is not None}
            if settings:
                resources[resource] = settings
            else:
                resources.pop(resource, None)
        return ConfigsImage(resources)
