"""Quantities in the API server's form, so that no difference is found; values recorded from Kubernetes 1.36."""

import pytest

from ottla_operator.model.quantity import canonical_quantity, compare_quantities


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (1, "1"),
        ("1", "1"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("0.1", "100m"),
        ("2.50", "2500m"),
        (2000, "2k"),
        ("1000000", "1M"),
        ("128974848", "128974848"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.3Ki", "307200m"),
        ("1.0001Ki", "1024103m"),
        ("1234.5678", "1234568m"),
        ("0.0005", "1m"),
        ("10Gi", "10Gi"),
        ("2048Ti", "2Pi"),
        ("1500M", "1500M"),
        ("1000G", "1T"),
        ("0", "0"),
        ("0Mi", "0"),
        ("9" * 40, "9" * 40),
        ("1025Ki", "1025Ki"),
    ],
)
def test_quantity_is_written_as_it_is_stored(value: int | str, stored: str) -> None:
    assert canonical_quantity(value) == stored
    assert canonical_quantity(stored) == stored


@pytest.mark.parametrize("value", ["", "lots", "1Qi", "-1", "1 Gi", "1e3"])
def test_invalid_quantity_is_rejected(value: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        canonical_quantity(value)


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [("1Gi", "1024Mi", 0), ("1G", "1Gi", -1), ("2", 1, 1), ("1500m", "1.5", 0), ("10Pi", "9Pi", 1), ("1Ki", "1k", 1)],
)
def test_quantities_are_compared_by_what_they_stand_for(one: int | str, other: int | str, order: int) -> None:
    assert compare_quantities(one, other) == order
    assert compare_quantities(other, one) == -order
