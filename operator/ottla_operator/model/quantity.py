"""Kubernetes quantities in the one form in which the API server stores them.

The server writes ``1024Mi`` as ``1Gi`` and ``1000m`` or the number 1 as ``"1"``. Quantities that the operator applies
have the same form, or each resync would find a difference to repair.
Source: resource.Quantity of k8s.io/apimachinery (canonical form).
"""

import re
from fractions import Fraction
from math import ceil

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_THOUSANDTHS = {"m": 1, "": 10**3, "k": 10**6, "M": 10**9, "G": 10**12, "T": 10**15, "P": 10**18, "E": 10**21}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)")


def canonical_quantity(value: int | str) -> str:
    """Return ``value`` without fractions, with the largest suffix that loses nothing; rounded up to thousandths.

    A binary suffix stays one as long as it stands for whole bytes, at least 1024 of them.

    Raises:
        ValueError: it is no quantity that the CRD's patterns allow.
    """
    number, suffix = _parts(value)
    if suffix not in _BINARY:
        return _decimal(number * _THOUSANDTHS[suffix])
    size = number * _BINARY[suffix]
    if size < 1024 or size.denominator != 1:
        return _decimal(size * 1000)
    largest = max((unit for unit in _BINARY if size % _BINARY[unit] == 0), key=_BINARY.__getitem__, default="")
    return f"{size / _BINARY.get(largest, 1)}{largest}"


def compare_quantities(one: int | str, other: int | str) -> int:
    """Return -1, 0 or 1 as ``one`` is less than, as much as or more than ``other``.

    Raises:
        ValueError: one of them is no quantity.
    """
    first, second = thousandths(one), thousandths(other)
    return (first > second) - (first < second)


def thousandths(value: int | str) -> Fraction:
    """Return the amount in thousandths, the smallest unit of most quantities.

    Raises:
        ValueError: it is no quantity.
    """
    number, suffix = _parts(value)
    return number * (_BINARY[suffix] * 1000 if suffix in _BINARY else _THOUSANDTHS[suffix])


def _parts(value: int | str) -> tuple[Fraction, str]:
    match = _PARTS.fullmatch(str(value))
    if match is None or match[2] not in _BINARY.keys() | _THOUSANDTHS.keys():
        raise ValueError(f"{value!r} is no quantity")
    return Fraction(match[1]), match[2]


def _decimal(thousandths: Fraction) -> str:
    whole = ceil(thousandths)
    if not whole:
        return "0"
    suffix = next(unit for unit in reversed(_THOUSANDTHS) if whole % _THOUSANDTHS[unit] == 0)
    return f"{whole // _THOUSANDTHS[suffix]}{suffix}"
