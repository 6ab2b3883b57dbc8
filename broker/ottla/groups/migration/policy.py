"""`MigrationPolicy`: in which directions a group with members may change its protocol.

Source: ConsumerGroupMigrationPolicy of Apache Kafka 4.3; KIP-848.
"""

from enum import StrEnum


class MigrationPolicy(StrEnum):
    """The value of ``group.consumer.migration.policy``, in lower case."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def permits_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of that protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def permits_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic group when its last member of the consumer protocol goes."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)
