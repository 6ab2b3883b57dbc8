"""``ssl.cipher.suites``: Java's cipher suite names, which are those of the IANA registry, mapped to OpenSSL's.

Source: RFC 5246 and RFC 8446 for the names; OpenSSL's ciphers(1).
"""

import re
from collections.abc import Iterable
from typing import Final

from ottla.errors import ConfigurationError

TLS13_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})

_SUITE: Final = re.compile(r"(?:TLS|SSL)_(?P<exchange>[A-Z0-9_]+?)_WITH_(?P<cipher>[A-Z0-9_]+)")
_CIPHER: Final = re.compile(r"(?P<name>AES|CAMELLIA|ARIA)_(?P<bits>\d+)_(?P<mode>CBC|GCM|CCM)(?:_(?P<hash>SHA\d*|8))?")


def openssl_cipher_list(suites: Iterable[str], place: str) -> tuple[list[str], bool]:
    """Return OpenSSL's names of the suites for TLS 1.2, and whether any suite is for TLS 1.3.

    Raises:
        ConfigurationError: some, but not all suites of TLS 1.3 are named; Python's ``ssl`` cannot select among them.
    """
    named = list(suites)
    tls13 = TLS13_SUITES.intersection(named)
    if tls13 and tls13 != TLS13_SUITES:
        missing = ", ".join(sorted(TLS13_SUITES - tls13))
        raise ConfigurationError(
            f"{place}: ssl.cipher.suites names {', '.join(sorted(tls13))} but not {missing}; suites of TLS "
            "1.3 are enabled together here. Name all three, or none and leave TLSv1.3 out."
        )
    return [openssl_cipher(name) for name in named if name not in TLS13_SUITES], bool(tls13)


def openssl_cipher(name: str) -> str:
    """Return OpenSSL's name of a suite; a name that is not in Java's form is returned unchanged."""
    suite = _SUITE.fullmatch(name)
    if suite is None:
        return name
    exchange = "" if suite["exchange"] == "RSA" else suite["exchange"].replace("_", "-") + "-"
    if suite["cipher"].startswith("CHACHA20_POLY1305"):
        return f"{exchange}CHACHA20-POLY1305"
    cipher = _CIPHER.fullmatch(suite["cipher"])
    if cipher is None:
        return name
    mode = "" if cipher["mode"] == "CBC" else f"-{cipher['mode']}"
    suffix = "8" if cipher["hash"] == "8" else f"-{cipher['hash']}" if cipher["hash"] else ""
    return f"{exchange}{cipher['name']}{cipher['bits']}{mode}{suffix}"
