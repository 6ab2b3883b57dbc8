"""`AdminClient`: describe and change a cluster, typed.

Every method raises `KafkaError` with the code and message of a broker's error response, and a
`ottla.client.errors.ClientError` if no broker responds in time. While there is no leader, controller or coordinator,
requests are retried within ``request_timeout_s``; for a topic that does not exist they are not.

The methods are in a module per subject: `admin_topics`, `admin_configs`, `admin_groups`, `admin_cluster`,
`admin_quorum`, `admin_partitions`, `admin_features`, `admin_security`, `admin_tokens`,
`admin_transactions`.
"""

from ottla.client.admin_cluster import ClusterAdmin
from ottla.client.admin_configs import ConfigAdmin
from ottla.client.admin_features import FeatureAdmin
from ottla.client.admin_groups import GroupAdmin
from ottla.client.admin_partitions import PartitionAdmin
from ottla.client.admin_quorum import QuorumAdmin
from ottla.client.admin_security import SecurityAdmin
from ottla.client.admin_tokens import TokenAdmin
from ottla.client.admin_topics import TopicAdmin
from ottla.client.admin_transactions import TransactionAdmin


class AdminClient(
    TopicAdmin,
    PartitionAdmin,
    ConfigAdmin,
    GroupAdmin,
    TransactionAdmin,
    ClusterAdmin,
    QuorumAdmin,
    FeatureAdmin,
    SecurityAdmin,
    TokenAdmin,
):
    """Admin calls on one cluster. ``async with AdminClient("host:9092") as admin: ...``."""
