"""`TopicReconciler`: reconciles Topics of the Kubernetes API."""

from collections.abc import Mapping

from ottla_operator.controllers.members import MemberReconciler
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.topic.reconcile import DeletedTopic, DesiredTopic, delete_topics, reconcile_topics
from ottla_operator.model.conditions import Reached
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.topic import TOPIC_FINALIZER, Topic
from ottla_operator.planning.precedence import heir, older_claim
from ottla_operator.planning.topic.plan import retained
from ottla_operator.ports.broker_admin import BrokerAdmin


class TopicReconciler(MemberReconciler[Topic]):
    """Reconciles Topics of one cluster, in batches."""

    finalizer = TOPIC_FINALIZER

    def _parse(self, document: Document) -> Topic:
        return Topic.parse(document)

    def _needs_finalizer(self, member: Topic) -> bool:
        return member.deletes_topic

    def _release_without_cluster(self, member: Topic) -> Reached | None:
        return retained(member)

    async def _reconcile_members(
        self,
        cluster: Cluster,
        members: Mapping[ObjectKey, Topic],
        documents: Mapping[ObjectKey, Document],
        broker: BrokerAdmin,
    ) -> Mapping[ObjectKey, ReconcileResult | Exception]:
        claimants = {key: self._index.allowed_claimants(topic, cluster) for key, topic in members.items()}
        deleted = {key: topic for key, topic in members.items() if topic.metadata.is_deleting}
        desired = {key: topic for key, topic in members.items() if key not in deleted}

        async def keep(topic: Topic, result: ReconcileResult) -> None:
            await self._statuses.write(documents[topic.metadata.key], result)

        reconciled = await reconcile_topics(
            [DesiredTopic(topic, older_claim(topic, claimants[key])) for key, topic in desired.items()],
            broker,
            brokers=cluster.broker_ids,
            keep=keep,
        )
        going = [DeletedTopic(topic, heir(topic, claimants[key])) for key, topic in deleted.items()]
        return {**reconciled, **await delete_topics(going, broker)}
