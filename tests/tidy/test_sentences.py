"""At most 2 % of a package's sentences begin with "who", "what", "whoever", "nobody", "somebody", "where"."""

from pathlib import Path

import allowances
import pytest
import sentences
import sources

PLANTED = '''\
"""Who writes this has no subject. The reader asks itself. What follows

Nobody knows. A list:
- where it is
- the broker
"""

# Somebody comments
# over two lines. The leader does not.
x = 1  # whatever it is
'''


def test_packages_name_the_actor() -> None:
    by_package = sentences.by_package()
    counts = sentences.count_by_package(by_package)
    allowed = allowances.allowed("sentences")

    risen = allowances.risen(counts, allowed)
    offenders = [str(found) for package in risen for found in sentences.actorless(by_package[package])]
    assert not offenders, "\n".join(["name the actor, subject first", *offenders])
    assert allowances.outdated(counts, allowed, is_exact=True) == [], (
        "python tests/tidy/allowances.py --lower sentences"
    )


def test_planted_sentences_are_found() -> None:
    found = sentences.sentences_of_python(PLANTED, "planted.py")

    assert [(sentence.line, sentence.text.split()[0]) for sentence in found if sentence.is_actorless] == [
        (1, "Who"),
        (1, "What"),
        (3, "Nobody"),
        (4, "-"),
        (8, "Somebody"),
    ]
    assert len(found) == 10


def test_planted_sentences_are_found_in_a_page_outside_of_code() -> None:
    page = "Where it is. The broker.\n\n```\nwhat is this\n```\n\n| who | the client |\n\n- **What** runs\n"

    found = sentences.sentences_of_page(page, "docs/planted.md")

    assert [(sentence.line, sentence.text) for sentence in found if sentence.is_actorless] == [
        (1, "Where it is."),
        (7, "who"),
        (9, "**What** runs"),
    ]


@pytest.mark.parametrize(("offenders", "counted"), [(2, 0), (3, 3)], ids=["two-percent", "more"])
def test_two_percent_are_allowed(offenders: int, counted: int) -> None:
    found = [sentences.Sentence("a.py", 1, "Who is it.") for _ in range(offenders)]
    found += [sentences.Sentence("a.py", 1, "The leader.") for _ in range(100 - offenders)]

    assert len(sentences.actorless(found)) == counted


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("broker/ottla/log/cleaner/x.py", "ottla.log"),
        ("broker/ottla/ports.py", "ottla"),
        ("operator/ottla_operator/model/x.py", "ottla_operator.model"),
        ("tests/broker/log/test_x.py", "tests/broker"),
        ("tests/conftest.py", "tests"),
        ("crds/cluster.md", "pages"),
    ],
)
def test_file_counts_in_its_package(path: str, package: str) -> None:
    assert sentences.package_of(sources.ROOT / Path(path)) == package
