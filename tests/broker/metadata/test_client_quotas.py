"""Limits are written to a snapshot and read back, for every kind of entity."""

import pytest

from ottla.metadata.client_quotas import ClientQuotasImage, QuotaEntity
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE

DEFAULTS_AND_NAMES: dict[QuotaEntity, dict[str, float]] = {
    frozenset({("user", None)}): {"producer_byte_rate": 1.0},
    frozenset({("user", "alice")}): {"producer_byte_rate": 2.0, "consumer_byte_rate": 3.0},
    frozenset({("client-id", None)}): {"request_percentage": 4.0},
    frozenset({("client-id", "c")}): {"request_percentage": 5.0},
    frozenset({("user", "alice"), ("client-id", None)}): {"producer_byte_rate": 6.0},
    frozenset({("user", None), ("client-id", "c")}): {"producer_byte_rate": 7.0},
    frozenset({("ip", None)}): {"connection_creation_rate": 8.0},
    frozenset({("ip", "10.0.0.1")}): {"connection_creation_rate": 9.0},
}


@pytest.mark.parametrize("order", [1, -1], ids=["as-set", "backwards"])
def test_snapshot_has_all_quotas_in_canonical_order(order: int) -> None:
    image = ClientQuotasImage(dict(list(DEFAULTS_AND_NAMES.items())[::order]))
    records = [record.message for record in image.records()]

    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)

    assert delta.apply(EMPTY_IMAGE.provenance).client_quotas == ClientQuotasImage(DEFAULTS_AND_NAMES)
    assert records == [record.message for record in ClientQuotasImage(DEFAULTS_AND_NAMES).records()]
