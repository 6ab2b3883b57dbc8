"""What a failed TLS handshake means to a client, and what to do about it.

OpenSSL's verify codes are those of x509_vfy.h; its reasons are those of the alerts of RFC 8446.
"""

import ssl
from typing import Final

from ottla.client.errors import BrokerUnreachableError, ClientError, TlsFailedError
from ottla.types import Endpoint

NOT_YET_VALID: Final = 9
EXPIRED: Final = 10
NAME_MISMATCHES: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)

_NEEDS_CERTIFICATE: Final = (
    "it demands a certificate of the client: set ssl.keystore.type=PEM and ssl.keystore.location (or ssl.keystore.key "
    "and ssl.keystore.certificate.chain)"
)
_NOT_TAKEN: Final = (
    "it does not accept this client's certificate; is that signed by an authority that the broker trusts?"
)
_NO_COMMON_VERSION: Final = (
    "it offers no version of TLS that this client takes; see ssl.enabled.protocols on both sides"
)
_ALERTS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NEEDS_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TAKEN,
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TAKEN,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TAKEN,
    "TLSV1_ALERT_DECRYPT_ERROR": _NOT_TAKEN,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this client's certificate has expired; show a new one",
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_COMMON_VERSION,
    "UNSUPPORTED_PROTOCOL": _NO_COMMON_VERSION,
}
_NO_TLS: Final = "it does not speak TLS: set security.protocol to PLAINTEXT, or SASL_PLAINTEXT if it wants a login"


def tls_failure(endpoint: Endpoint, error: Exception, *, has_certificate: bool) -> ClientError:
    """Return what to raise for a handshake with ``endpoint`` that failed with ``error``.

    ``has_certificate``: whether this client has one to show. A connection that was only cut may be dialled again, so
    that is a BrokerUnreachableError; all others are TlsFailedErrors.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailedError(_untrusted(endpoint, error))
    reason = getattr(error, "reason", None) or ""
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError) or reason.startswith("UNEXPECTED_EOF"):
        return BrokerUnreachableError(
            f"{endpoint} hung up during the TLS handshake; if that listener has no TLS, set security.protocol to "
            "PLAINTEXT, or SASL_PLAINTEXT if it wants a login"
        )
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        why = "it found no cipher in common with this client" if has_certificate else _NEEDS_CERTIFICATE
        return TlsFailedError(f"{endpoint} refuses the TLS handshake: {why}")
    if reason in _ALERTS:
        why = _ALERTS[reason] if has_certificate or _ALERTS[reason] is not _NOT_TAKEN else _NEEDS_CERTIFICATE
        return TlsFailedError(f"{endpoint} refuses the TLS handshake: {why}")
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return TlsFailedError(f"{endpoint} cannot be reached with TLS: {_NO_TLS}")
    return TlsFailedError(f"TLS with {endpoint} failed: {reason.lower().replace('_', ' ') or error}")


def _untrusted(endpoint: Endpoint, error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code == EXPIRED:
        return f"the certificate of {endpoint} has expired ({said}): its owner has to renew it, or your clock is wrong"
    if error.verify_code == NOT_YET_VALID:
        return f"the certificate of {endpoint} is not valid yet ({said}): is your clock right?"
    if error.verify_code in NAME_MISMATCHES:
        return (
            f"the certificate of {endpoint} is for another name ({said}): dial a name that is in it, or have one "
            f"issued for {endpoint.host}; `ottla doctor` shows its names"
        )
    if error.verify_code in UNKNOWN_AUTHORITY:
        return (
            f"the certificate of {endpoint} is signed by an authority that this client does not trust ({said}): set "
            "ssl.truststore.type=PEM and ssl.truststore.location to the authority's certificate"
        )
    return f"the certificate of {endpoint} cannot be trusted: {said}"
