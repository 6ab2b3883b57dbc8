"""Which ids the members of share groups may have (KIP-932).

Source: KafkaApis.isMemberIdValid of Apache Kafka 4.3.
"""

from typing import Final

from ottla.java_strings import string_length

_LENGTH_MAX: Final = 36


def is_member_id_valid(member_id: str | None) -> bool:
    """Return whether the id has 1 to 36 characters of Java, of which those beyond the BMP take two."""
    return member_id is not None and 0 < string_length(member_id) <= _LENGTH_MAX
