"""The client id of a request's header, which need not be UTF-8.

Source: RequestHeader.parse of Apache Kafka 4.3: Java's String puts U+FFFD in the place of what it cannot decode.
"""

from ottla.wire.codec.primitives import STRING_BYTES_MAX


def decode_malformed(data: memoryview) -> str:
    """Return a client id that a string field can always hold, because records, envelopes and responses contain it.

    U+FFFD has three bytes for a byte that is not UTF-8, so a long client id is shortened. Kafka keeps it whole, and
    fails when it writes it.
    """
    return str(data, "utf-8", "replace").encode()[:STRING_BYTES_MAX].decode("utf-8", "ignore")
