"""Java's names of cipher suites are mapped to OpenSSL's, and OpenSSL supports each of them."""

import ssl

import pytest

from ottla.errors import ConfigurationError
from ottla.tls.ciphers import TLS13_SUITES, openssl_cipher, openssl_cipher_list


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_java_cipher_suite_name_maps_to_openssl_name(java: str, openssl: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")

    assert openssl_cipher(java) == openssl
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


def test_tls_1_3_suites_are_recognized() -> None:
    assert openssl_cipher_list(["AES128-SHA", *TLS13_SUITES], "listener SSL") == (["AES128-SHA"], True)


def test_subset_of_tls_1_3_suites_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"suites of TLS 1\.3 are enabled together"):
        openssl_cipher_list(["TLS_AES_256_GCM_SHA384"], "listener SSL")
