"""Which operations a principal may do, as the bit fields of Metadata, DescribeCluster and DescribeTopicPartitions.

There is no authorizer in this release: everything that the kind of resource knows is allowed, as in Kafka without one.
Source: AclOperation and AclEntry.supportedOperations of Apache Kafka 4.3; bit n stands for the operation with code n.
"""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << code for code in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (1 << code for code in range(9, 13))

TOPIC_OPERATIONS = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
CLUSTER_OPERATIONS = (
    _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _DESCRIBE_CONFIGS | _ALTER_CONFIGS | _IDEMPOTENT_WRITE
)
NOT_ASKED = -(2**31)
"""What the fields say when the request did not ask."""
