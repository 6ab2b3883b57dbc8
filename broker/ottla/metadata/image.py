"""The cluster's metadata at one offset of the log: immutable, and sharing what did not change with the one before."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.acls import AclsImage
from ottla.metadata.client_quotas import ClientQuotasImage
from ottla.metadata.cluster import ClusterImage
from ottla.metadata.configs import ConfigsImage
from ottla.metadata.delegation_tokens import DelegationTokensImage
from ottla.metadata.features import FeaturesImage
from ottla.metadata.producer_ids import ProducerIdsImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.scram import ScramImage
from ottla.metadata.topics import TopicsImage
from ottla.types import LeaderEpoch, Offset


class Provenance(NamedTuple):
    """The last record that an image contains: its offset, epoch and append time; -1 before the first."""

    last_contained_offset: Offset = -1
    last_contained_epoch: LeaderEpoch = -1
    last_contained_log_time_ms: int = -1


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """See the module."""

    provenance: Provenance = field(default_factory=Provenance)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    acls: AclsImage = field(default_factory=AclsImage)
    scram: ScramImage = field(default_factory=ScramImage)
    client_quotas: ClientQuotasImage = field(default_factory=ClientQuotasImage)
    delegation_tokens: DelegationTokensImage = field(default_factory=DelegationTokensImage)

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records of this image, lazily: the contents of a snapshot, in Kafka's order."""
        versions = self.features.record_versions
        yield from self.features.records()
        yield from self.cluster.records(versions)
        yield from self.topics.records(versions)
        yield from self.configs.records()
        yield from self.client_quotas.records()
        yield from self.producer_ids.records()
        yield from self.acls.records()
        yield from self.scram.records()
        yield from self.delegation_tokens.records()


EMPTY_IMAGE = MetadataImage()
