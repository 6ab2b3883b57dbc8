"""The Certificate object for cert-manager."""

from ottla_operator.model.certificate_order import CertificateOrder
from ottla_operator.model.listeners import IssuerRef


def test_names_and_addresses_are_separate_fields() -> None:
    order = CertificateOrder(name="a", names=("*.x.svc", "127.0.0.1", "::1", "x"), issuer=IssuerRef(name="acme"))

    assert order.spec["dnsNames"] == ["*.x.svc", "x"]
    assert order.spec["ipAddresses"] == ["127.0.0.1", "::1"]
    assert order.spec["secretName"] == order.secret_name == "a"


def test_no_address_is_no_empty_list() -> None:
    order = CertificateOrder(name="a", names=("x",), issuer=IssuerRef(name="acme", kind="ClusterIssuer"))

    assert "ipAddresses" not in order.spec
    assert order.spec["issuerRef"]["kind"] == "ClusterIssuer"
