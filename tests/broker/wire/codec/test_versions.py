"""Version ranges are parsed and formatted as Kafka writes them."""

import pytest

from ottla.wire.codec.versions import parse_versions


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        pytest.param("0+", [0, 1, 32_767], [-1], id="open"),
        pytest.param("3+", [3, 4], [2], id="open-later"),
        pytest.param("2-5", [2, 5], [1, 6], id="closed"),
        pytest.param("4", [4], [3, 5], id="single"),
        pytest.param("none", [], [-1, 0, 1], id="none"),
    ],
)
def test_range_contains_exactly_its_versions(text: str, inside: list[int], outside: list[int]) -> None:
    versions = parse_versions(text)

    assert [version for version in [*inside, *outside] if version in versions] == inside
    assert str(versions) == text


def test_empty_string_is_an_empty_range() -> None:
    assert str(parse_versions("")) == "none"


@pytest.mark.parametrize("text", ["+", "a", "1-", "-1+-"])
def test_malformed_range_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_versions(text)
