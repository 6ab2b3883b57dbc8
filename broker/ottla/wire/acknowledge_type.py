"""`AcknowledgeType`: acknowledge_types of ShareFetch and ShareAcknowledge (KIP-932).

Source: AcknowledgeType of Apache Kafka 4.3.1; ShareFetchRequest.json.
"""

from enum import IntEnum


class AcknowledgeType(IntEnum):
    """What a member of a share group reports about a record that it has acquired."""

    GAP = 0
    """There is no record at the offset: it was compacted, aborted or is a control record. Kafka has no name for it."""
    ACCEPT = 1
    """It was processed."""
    RELEASE = 2
    """It is delivered again, to any member, unless it has been delivered too often."""
    REJECT = 3
    """It is not delivered again."""
    RENEW = 4
    """It is still being processed: its acquisition lock starts again."""
