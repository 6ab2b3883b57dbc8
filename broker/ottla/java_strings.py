"""Strings as Java has them, in UTF-16 code units, of which a character beyond the BMP takes two.

Kafka's limits on the length of a string count them, and its sorted collections compare them.
"""


def string_length(text: str) -> int:
    """Return ``String.length``."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def string_order(text: str) -> bytes:
    """Return a key that sorts strings as ``String.compareTo`` does."""
    return text.encode("utf-16-be", "surrogatepass")
