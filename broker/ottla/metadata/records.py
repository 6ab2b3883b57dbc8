"""The records of ``__cluster_metadata``: a message, the version it is written in, and the frame around both.

A record's value:

========= ======== ==================================================================
field     encoding content
========= ======== ==================================================================
frame     uvarint  1
api key   uvarint  which record (`ottla.wire.messages.metadata_log`)
version   uvarint  of the record's fields
body      -        the message in that version
========= ======== ==================================================================

The batch's CRC-32C covers it all. Source: MetadataRecordSerde and AbstractApiMessageSerde of Apache Kafka.
"""

from typing import Final, NamedTuple

from ottla.errors import ProtocolError
from ottla.ports import Buffer
from ottla.wire.codec import Message
from ottla.wire.messages import metadata_log

FRAME_VERSION: Final = 1
_SMALL_MAX: Final = 0x7F

RECORD_TYPES: Final[dict[int, type[Message]]] = {
    value.api_key: value
    for value in vars(metadata_log).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message
}
"""Every metadata record of Kafka 4.3 by its api key."""


class MetadataRecord(NamedTuple):
    """A record's message and the version that it is written in (Kafka's ApiMessageAndVersion)."""

    message: Message
    version: int


class MetadataRecordSerde:
    """The frame above, for `ottla.raft`."""

    def encode(self, record: MetadataRecord) -> bytes:
        message, version = record
        key = message.api_key
        assert key <= _SMALL_MAX >= version, "keys and versions of metadata records fit a byte"
        out = bytearray((FRAME_VERSION, key, version))
        message.write(version, out, [])
        return bytes(out)

    def decode(self, value: Buffer) -> MetadataRecord:
        """Read what `encode` writes.

        Raises:
            ProtocolError: the frame is of another version, or the record is newer than this release.
        """
        if len(value) < 3 or value[0] != FRAME_VERSION:
            raise ProtocolError(
                f"a metadata record starts with {bytes(value[:3])!r}; its frame version is {FRAME_VERSION}"
            )
        key, version = value[1], value[2]
        record_type = RECORD_TYPES.get(key)
        if record_type is None or version not in record_type.versions:
            name = "unknown" if record_type is None else record_type.__name__
            raise ProtocolError(
                f"metadata record with key {key} ({name}) in version {version} is newer than this release: "
                "run the release that wrote it"
            )
        return MetadataRecord(record_type.decode(value, version, 3), version)
