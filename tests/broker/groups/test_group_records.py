"""Records of groups that JVM Kafka 4.3.1 wrote are written with the same bytes; and how to record them again.

Each ``*_records.txt`` has the topics of that Kafka, the requests, and the records in hexadecimal. To record one again
from a Kafka with one node, set up as for `test_scenarios` and as the test module of the file describes, run
``test_record[consumer_records]``, for instance, with OTTLA_SCENARIOS_BOOTSTRAP=HOST:PORT and
OTTLA_SCENARIOS_LOG_DIR=its directory of logs.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from ottla.groups.log import decode, encode
from record_files import record, sections

FILES: Final = [
    Path(__file__).with_name(f"{name}_records.txt") for name in ("consumer", "migration", "share", "streams")
]
RECORDS: Final = [
    pytest.param(*stored, id=f"{file.stem}-{number}")
    for file in FILES
    for number, stored in enumerate(sections(file)[2], 1)
]
LOG_DIR = os.environ.get("OTTLA_SCENARIOS_LOG_DIR")


@pytest.mark.skipif(LOG_DIR is None, reason="only for recording")
@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in FILES])
def test_record(file: Path) -> None:
    assert LOG_DIR is not None, "only for recording"
    record(file, os.environ["OTTLA_SCENARIOS_BOOTSTRAP"], LOG_DIR)


@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_records_are_written_with_the_bytes_that_were_read(key: bytes, value: bytes | None) -> None:
    decoded = decode(key, value)

    assert decoded is not None
    assert encode(decoded) == (key, value)
