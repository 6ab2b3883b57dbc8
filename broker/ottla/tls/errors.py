"""Explanations of failed handshakes for the log: OpenSSL's reason names alone do not say what to check."""

import ssl
from typing import Final

_HANDSHAKE_RECORD: Final = 0x16
_ALERT_RECORD: Final = 0x15
_HTTP_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"CONN", b"PRI ")
_API_KEY_MAX: Final = 1024

_EXPLANATIONS: Final = {
    "CERTIFICATE_VERIFY_FAILED": "the peer's certificate is not trusted",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client presented no certificate, and ssl.client.auth is required",
    "NO_SHARED_CIPHER": "the client offers no cipher that ssl.cipher.suites and the certificate's key allow",
    "UNSUPPORTED_PROTOCOL": "the peer offers no version of TLS that ssl.enabled.protocols allows",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS, or no version that ssl.enabled.protocols allows",
    "NO_PROTOCOLS_AVAILABLE": "ssl.enabled.protocols leaves no version of TLS",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer rejects the versions of TLS that ssl.enabled.protocols allows",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the authority that signed this node's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer does not accept this node's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer does not accept this node's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer says that this node's certificate has expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer found no common version or cipher, or requires a certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server requires a certificate, and this node presented none",
    "EE_KEY_TOO_SMALL": "the certificate's key is too short to be secure",
    "CA_KEY_TOO_SMALL": "the key of an authority is too short to be secure",
    "CA_MD_TOO_WEAK": "a certificate is signed with a hash that is not secure",
    "UNEXPECTED_EOF_WHILE_READING": "the peer closed the connection without an alert",
    "HTTP_REQUEST": "this looks like HTTP on a TLS listener",
}


class TlsError(ConnectionError):
    """The handshake failed, or TLS failed later; the message is an explanation of `explain`."""


def explain(error: Exception) -> str:
    """Return an explanation of OpenSSL's ``error``, followed by OpenSSL's own name for it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{_EXPLANATIONS['CERTIFICATE_VERIFY_FAILED']}: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError) and error.reason:
        explanation = _EXPLANATIONS.get(error.reason)
        name = error.reason.lower().replace("_", " ")
        return f"{explanation} ({name})" if explanation else name
    return str(error)


def explain_first_bytes(first: bytes) -> str | None:
    """Return which protocol a client seems to speak, by its first bytes; None if that is TLS, or there are none."""
    if not first or first[0] in (_HANDSHAKE_RECORD, _ALERT_RECORD):
        return None
    if first[:4] in _HTTP_METHODS:
        return "this looks like HTTP on a TLS listener; the admin pages are on another port"
    size, api_key = int.from_bytes(first[:4], "big"), int.from_bytes(first[4:6], "big")
    if first[0] == 0 and size > 0 and api_key < _API_KEY_MAX:
        return (
            "this looks like a plaintext Kafka client on a TLS listener; set security.protocol=SSL (or SASL_SSL) in "
            "the client"
        )
    return "the client does not speak TLS"
