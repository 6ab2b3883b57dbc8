"""`AdminClient`: describe and change a cluster, typed.

Every method raises `KafkaError` with the broker's code and message where a broker refuses, and a
`ottla.client.errors.ClientError` where none answers in time. Waiting for a leader, a controller or a coordinator is
retried within ``request_timeout_s``; a topic that does not exist is not waited for.

The methods live beside their subject: `admin_topics`, `admin_configs`, `admin_groups`, `admin_cluster`,
`admin_quorum`, `admin_partitions`, `admin_features`, `admin_security`.
"""

from ottla.client.admin_cluster import ClusterAdmin
from ottla.client.admin_configs import ConfigAdmin
from ottla.client.admin_features import FeatureAdmin
from ottla.client.admin_groups import GroupAdmin
from ottla.client.admin_partitions import PartitionAdmin
from ottla.client.admin_quorum import QuorumAdmin
from ottla.client.admin_security import SecurityAdmin
from ottla.client.admin_topics import TopicAdmin


class AdminClient(
    TopicAdmin, PartitionAdmin, ConfigAdmin, GroupAdmin, ClusterAdmin, QuorumAdmin, FeatureAdmin, SecurityAdmin
):
    """Admin calls on one cluster. ``async with AdminClient("host:9092") as admin: ...``."""
