"""The meaning of a failed TLS handshake to a client, and the remedy.

OpenSSL's verify codes are those of x509_vfy.h; its reasons are those of the alerts of RFC 8446.
"""

import ssl
from typing import Final, NamedTuple

from ottla.client.errors import BrokerUnreachableError, ClientError, TlsFailedError
from ottla.types import Endpoint

NOT_YET_VALID: Final = 9
EXPIRED: Final = 10
NAME_MISMATCHES: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)


class TlsProblem(NamedTuple):
    """A problem and its remedy; ``may_pass`` if another attempt may succeed."""

    what: str
    next_step: str
    may_pass: bool = False


_NEEDS_CERTIFICATE: Final = (
    "it demands a certificate of the client",
    "set ssl.keystore.type=PEM and ssl.keystore.location (or ssl.keystore.key and ssl.keystore.certificate.chain)",
)
_NOT_TAKEN: Final = (
    "it does not accept this client's certificate",
    "show one that is signed by an authority that the broker trusts",
)
_NO_COMMON_VERSION: Final = (
    "there is no version of TLS that both sides support",
    "see ssl.enabled.protocols on both sides",
)
_ALERTS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NEEDS_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TAKEN,
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TAKEN,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TAKEN,
    "TLSV1_ALERT_DECRYPT_ERROR": _NOT_TAKEN,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": ("it says that this client's certificate has expired", "show a new one"),
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_COMMON_VERSION,
    "UNSUPPORTED_PROTOCOL": _NO_COMMON_VERSION,
}
_NO_TLS: Final = "set security.protocol to PLAINTEXT, or SASL_PLAINTEXT if it requires SASL"


def tls_failure(endpoint: Endpoint, error: Exception, *, has_certificate: bool) -> ClientError:
    """Return the exception for a handshake with ``endpoint`` that failed with ``error``; see `tls_problem`.

    A connection that was closed may succeed later, so that is a BrokerUnreachableError; all others are
    TlsFailedErrors.
    """
    problem = tls_problem(endpoint, error, has_certificate=has_certificate)
    kind = BrokerUnreachableError if problem.may_pass else TlsFailedError
    return kind(f"{problem.what}: {problem.next_step}" if problem.next_step else problem.what)


def tls_problem(endpoint: Endpoint, error: Exception, *, has_certificate: bool) -> TlsProblem:
    """Return the cause of a handshake with ``endpoint`` that failed with ``error``.

    ``has_certificate``: whether this client has a certificate of its own.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(endpoint, error)
    reason = getattr(error, "reason", None) or ""
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError) or reason.startswith("UNEXPECTED_EOF"):
        return TlsProblem(
            f"{endpoint} disconnected in the TLS handshake",
            f"if that listener has no TLS, {_NO_TLS}",
            may_pass=True,
        )
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return TlsProblem(f"{endpoint} does not speak TLS", _NO_TLS)
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        what, next_step = (
            ("it found no cipher in common with this client", "see ssl.cipher.suites on both sides")
            if has_certificate
            else _NEEDS_CERTIFICATE
        )
    elif reason in _ALERTS:
        known = _ALERTS[reason]
        what, next_step = _NEEDS_CERTIFICATE if known is _NOT_TAKEN and not has_certificate else known
    else:
        return TlsProblem(f"TLS with {endpoint} failed: {reason.lower().replace('_', ' ') or error}", "")
    return TlsProblem(f"{endpoint} rejects the TLS handshake: {what}", next_step)


def _untrusted(endpoint: Endpoint, error: ssl.SSLCertVerificationError) -> TlsProblem:
    said, whose = error.verify_message.rstrip("."), f"the certificate of {endpoint}"
    if error.verify_code == EXPIRED:
        return TlsProblem(f"{whose} has expired ({said})", "its owner has to renew it; or your clock is wrong")
    if error.verify_code == NOT_YET_VALID:
        return TlsProblem(f"{whose} is not valid yet ({said})", "see whether your clock is right")
    if error.verify_code in NAME_MISMATCHES:
        return TlsProblem(
            f"{whose} is for another name ({said})",
            f"connect to a name that is in it (`ottla doctor` shows them), or have one issued for {endpoint.host}",
        )
    if error.verify_code in UNKNOWN_AUTHORITY:
        return TlsProblem(
            f"{whose} is signed by an authority that this client does not trust ({said})",
            "set ssl.truststore.type=PEM and ssl.truststore.location to the authority's certificate",
        )
    return TlsProblem(f"{whose} cannot be trusted: {said}", "")
