"""ShareFetch and ShareAcknowledge, recorded from JVM Kafka 4.3.1 with a member in the group, against Ottla.

Lines of ``scenarios/*.txt``: ``topics NAME=PARTITIONS``; ``group NAME KEY=VALUE ...``; ``member GROUP MEMBER`` (Kafka
initializes the share-partitions of a group with members); ``produce TOPIC PARTITION RECORDS``; ``> API vN {request}``;
``< {response}``; ``ours {response}`` where Ottla differs on purpose.
"""

import re
from pathlib import Path

import pytest

from share_driver import ShareDriver, leave_out_fields

SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))


@pytest.fixture(autouse=True)
def _leave_out_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_fields(monkeypatch)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_responses_are_those_of_kafka(path: Path) -> None:
    driver = ShareDriver()
    lines = path.read_text().splitlines()
    for index, line in enumerate(lines):
        if line.startswith(">"):
            expected = lines[index + 1].removeprefix("< ")
            if index + 2 < len(lines) and lines[index + 2].startswith("ours "):
                expected = lines[index + 2].removeprefix("ours ")
            assert driver.respond(line) == expected, line
        elif re.match("topics|group|member|produce", line):
            command, *arguments = line.split()
            getattr(driver, command)(*arguments)
