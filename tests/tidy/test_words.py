"""The words of docs/glossary.md hold in names and prose; files with banned words from before may only lose some."""

import allowances
import pytest
import sources
import words
from sources import Passage

PLANTED = '''\
"""Waits at the door.

The broker "refused" it, as `answers` say; connection refused is the system's own message.
"""

VERDICT = 1  # by chance: told
# A comment that goes
# on with the next line.


class CrowdControl:
    def let_in(self, somebody):
        self.lane = "one lane: not a message"
        log("metric ottla_unread_answer_bytes of --no-answer is damaged")
'''


@pytest.fixture(scope="module")
def banned() -> words.BannedWords:
    return words.read_glossary(words.GLOSSARY.read_text(encoding="utf-8"))


def test_files_have_no_banned_words_beyond_their_allowance() -> None:
    found = words.all_offenders()
    counts = words.count_by_file(found)
    allowed = allowances.allowed("words")

    risen = set(allowances.risen(counts, allowed))
    offenders = [str(offender) for offender in found if offender.path in risen]
    assert not offenders, "\n".join(["see docs/glossary.md", *offenders])
    assert allowances.outdated(counts, allowed, is_exact=True) == [], "python tests/tidy/allowances.py --lower words"


def test_planted_words_are_found_in_prose_messages_and_names(banned: words.BannedWords) -> None:
    found = words.offenders_in_python(PLANTED, "broker/ottla/witness.py", banned)

    assert [str(offender).removeprefix("broker/ottla/witness.py:") for offender in found] == [
        "1: door",
        "1: witness",
        "6: chance",
        "6: told",
        "6: verdict",
        "7: goes on with",
        "11: crowd",
        "12: let in",
        "12: somebody",
        "13: lane",
        "14: damaged",
    ]


def test_strings_of_tests_are_data(banned: words.BannedWords) -> None:
    found = words.offenders_in_python(PLANTED, "tests/test_planted.py", banned)

    assert "damaged" not in {offender.word for offender in found}


def test_planted_words_are_found_in_a_page_outside_of_code(banned: words.BannedWords) -> None:
    code = "```console\n$ ottla door\n```"
    page = f"# A door\n\nNothing.\n\n| a | refused |\n| --- | --- |\n\n{code}\n\n- held\n  up, `told`\n"

    found = words.offenders_in_page(page, "docs/planted.md", banned)

    assert [(offender.line, offender.word) for offender in found] == [(1, "door"), (5, "refused"), (12, "held up")]


@pytest.mark.parametrize(
    "text", ["doorway", "ottla.answer.bytes", "--answers", "a/door/b", "unread_answer", "CONNECTION REFUSED"]
)
def test_parts_of_other_words_and_names_are_no_offence(banned: words.BannedWords, text: str) -> None:
    assert list(banned.occurrences(Passage(1, text))) == []


def test_glossary_itself_has_a_reason_for_each_word() -> None:
    table = words.GLOSSARY.read_text(encoding="utf-8").partition(words.TABLE_HEADING)[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]

    assert len(rows) > 20
    assert [row[1] for row in rows if len(row) != 5 or not row[2].strip()] == []


def test_every_page_and_source_is_read() -> None:
    read = {sources.relative(path) for path in [*sources.python_files(), *sources.pages()]}

    assert {"README.md", "crds/cluster.md", "broker/ottla/ports.py", "tests/tidy/test_words.py"} <= read
    assert not read & sources.GENERATED_PAGES
