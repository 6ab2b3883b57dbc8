"""Version ranges read as Kafka writes them, and say again what they read."""

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
def test_a_range_contains_its_ends_and_nothing_beyond(text: str, inside: list[int], outside: list[int]) -> None:
    versions = parse_versions(text)

    assert [version for version in [*inside, *outside] if version in versions] == inside
    assert str(versions) == text


def test_no_text_is_no_versions() -> None:
    assert str(parse_versions("")) == "none"


@pytest.mark.parametrize("text", ["+", "a", "1-", "-1+-"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_versions(text)
