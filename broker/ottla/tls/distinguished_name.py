"""The subject of a certificate as Kafka prints it: RFC 2253, as Java's ``X500Principal.getName()`` writes it.

The last part of the name comes first: ``CN=client,OU=tests,C=DE``. Nine attributes have names; others are written as
their OID and the value's bytes in hexadecimal: ``1.2.840.113549.1.9.1=#1603...``.
Source: RFC 2253, X.690 (DER); edge cases were checked with the JVM.
"""

from collections.abc import Iterator
from typing import Final

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_EXPLICIT_VERSION: Final = 0xA0


def subject_of(certificate: bytes) -> str:
    """Return the subject of an X.509 certificate in DER.

    Raises:
        ValueError: the bytes are not a certificate.
    """
    try:
        return format_name(_subject_bytes(certificate))
    except (IndexError, StopIteration) as error:
        raise ValueError("elements are missing") from error


def _subject_bytes(certificate: bytes) -> bytes:
    """Return the content of the subject's SEQUENCE."""
    _, whole, _ = next(_elements(certificate))
    _, signed, _ = next(_elements(whole))
    fields = [content for tag, content, _ in _elements(signed) if tag != _EXPLICIT_VERSION]
    # serialNumber, signature, issuer, validity, subject
    return fields[4]


def format_name(name: bytes) -> str:
    """Return a Name as text, given the content of its SEQUENCE."""
    parts = []
    for _, attributes, _ in _elements(name):
        parts.append("+".join(_format_attribute(attribute) for _, attribute, _ in _elements(attributes)))
    return ",".join(reversed(parts))


def _format_attribute(attribute: bytes) -> str:
    (_, number, _), (tag, value, whole_value) = _elements(attribute)
    oid = _format_oid(number)
    name = _NAMES.get(oid)
    if name is None or tag not in _STRINGS:
        return f"{oid if name is None else name}=#{whole_value.hex()}"
    # Java decodes every string type as UTF-8, even BMPString.
    return f"{name}={escape(value.decode(errors='replace'))}"


def escape(value: str) -> str:
    """Return the value of an attribute, escaped as in a distinguished name."""
    escaped = "".join(f"\\{sign}" if sign in ',=+<>#;"\\' else sign for sign in value).replace("\0", "\\00")
    stripped = escaped.strip(" ")
    leading = len(escaped) - len(escaped.lstrip(" "))
    trailing = len(escaped) - leading - len(stripped)
    return "\\ " * leading + stripped + "\\ " * trailing


def _format_oid(content: bytes) -> str:
    arcs, arc = [], 0
    for byte in content:
        arc = arc << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield each element's tag, content and whole encoding."""
    position = 0
    while position < len(data):
        start = position
        if len(data) < position + 2:
            raise ValueError("an element is truncated")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        end = position + length
        if end > len(data):
            raise ValueError("an element is truncated")
        yield tag, data[position:end], data[start:end]
        position = end
