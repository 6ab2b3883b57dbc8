"""`MetadataDelta`: records applied to an image, and what they changed. The only way from one image to the next."""

from dataclasses import replace

from ottla.metadata.acls import AclsDelta
from ottla.metadata.client_quotas import ClientQuotasDelta
from ottla.metadata.cluster import ClusterDelta
from ottla.metadata.configs import ConfigsDelta
from ottla.metadata.delegation_tokens import DelegationTokensDelta
from ottla.metadata.features import FeaturesDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.producer_ids import ProducerIdsDelta
from ottla.metadata.scram import ScramDelta
from ottla.metadata.topics import TopicsDelta
from ottla.wire.codec import Message
from ottla.wire.messages import metadata_log as log


class MetadataDelta:
    """Changes on the way from ``image`` to the next; each part keeps its own."""

    __slots__ = (
        "_replays",
        "acls",
        "client_quotas",
        "cluster",
        "configs",
        "delegation_tokens",
        "features",
        "image",
        "producer_ids",
        "scram",
        "topics",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.features = FeaturesDelta(image.features)
        self.cluster = ClusterDelta(image.cluster)
        self.topics = TopicsDelta(image.topics)
        self.configs = ConfigsDelta(image.configs)
        self.producer_ids = ProducerIdsDelta(image.producer_ids)
        self.acls = AclsDelta(image.acls)
        self.scram = ScramDelta(image.scram)
        self.client_quotas = ClientQuotasDelta(image.client_quotas)
        self.delegation_tokens = DelegationTokensDelta(image.delegation_tokens)
        self._replays = {
            log.FeatureLevelRecord: self.features.replay_feature_level,
            log.RegisterBrokerRecord: self.cluster.replay_register_broker,
            log.UnregisterBrokerRecord: self.cluster.replay_unregister_broker,
            log.FenceBrokerRecord: self.cluster.replay_fence_broker,
            log.UnfenceBrokerRecord: self.cluster.replay_unfence_broker,
            log.BrokerRegistrationChangeRecord: self.cluster.replay_broker_registration_change,
            log.RegisterControllerRecord: self.cluster.replay_register_controller,
            log.TopicRecord: self.topics.replay_topic,
            log.PartitionRecord: self.topics.replay_partition,
            log.PartitionChangeRecord: self.topics.replay_partition_change,
            log.RemoveTopicRecord: self._replay_remove_topic,
            log.ClearElrRecord: self.topics.replay_clear_elr,
            log.ConfigRecord: self.configs.replay_config,
            log.ProducerIdsRecord: self.producer_ids.replay_producer_ids,
            log.AccessControlEntryRecord: self.acls.replay_acl,
            log.RemoveAccessControlEntryRecord: self.acls.replay_remove_acl,
            log.UserScramCredentialRecord: self.scram.replay_credential,
            log.RemoveUserScramCredentialRecord: self.scram.replay_removal,
            log.ClientQuotaRecord: self.client_quotas.replay_client_quota,
            log.DelegationTokenRecord: self.delegation_tokens.replay_token,
            log.RemoveDelegationTokenRecord: self.delegation_tokens.replay_removal,
            log.NoOpRecord: _replay_nothing,
            log.ZkMigrationStateRecord: _replay_nothing,
        }

    @classmethod
    def of_everything(cls, image: MetadataImage) -> "MetadataDelta":
        """Return the delta from an empty image to ``image``."""
        delta = cls(EMPTY_IMAGE)
        for record in replace(image, topics=EMPTY_IMAGE.topics).records():
            delta.replay(record.message)
        delta.topics.add_all(image.topics)
        return delta

    def replay(self, record: Message) -> None:
        """Apply one record.

        Raises:
            ValueError: the record contradicts the image, or this release does not support it.
        """
        replay = self._replays.get(type(record))
        if replay is None:
            raise ValueError(f"{type(record).__name__} in the metadata log belongs to no part of the image")
        replay(record)  # type: ignore[operator]

    def finish_snapshot(self) -> None:
        """Remove everything in ``image`` that the snapshot just replayed did not name."""
        self.features.finish_snapshot()
        self.cluster.finish_snapshot()
        self.topics.finish_snapshot()
        self.configs.finish_snapshot()
        self.acls.finish_snapshot()
        self.scram.finish_snapshot()
        self.client_quotas.finish_snapshot()
        self.delegation_tokens.finish_snapshot()

    def apply(self, provenance: Provenance) -> MetadataImage:
        """Return the image with every change so far."""
        return MetadataImage(
            provenance,
            self.features.apply(),
            self.cluster.apply(),
            self.topics.apply(),
            self.configs.apply(),
            self.producer_ids.apply(),
            self.acls.apply(),
            self.scram.apply(),
            self.client_quotas.apply(),
            self.delegation_tokens.apply(),
        )

    def _replay_remove_topic(self, record: log.RemoveTopicRecord) -> None:
        self.configs.remove_topic(self.topics.replay_remove_topic(record))


def _replay_nothing(_: Message) -> None:
    """For records that carry no metadata."""
