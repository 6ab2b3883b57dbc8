"""Regular expressions of groups: the recorded results of RE2J are those of the JVM Kafka's jar.

OTTLA_RECORD_REGULAR_EXPRESSIONS=1 records them (tests/broker/groups/regex).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

HERE = Path(__file__).parent
UNIT_TESTS: Final = HERE.parent / "broker" / "groups" / "regex"
RECORDED: Final = UNIT_TESTS / "re2j_results.jsonl"
NAMES: Final = json.loads((UNIT_TESTS / "topic_names.json").read_text(encoding="utf-8"))


def test_recorded_results_are_those_of_re2j() -> None:
    libs = os.environ.get("OTTLA_KAFKA_LIBS")
    if not libs:
        pytest.skip("OTTLA_KAFKA_LIBS does not name a folder with Kafka's jars")
    recorded: list[tuple[str, Any]] = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]

    re2j = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(HERE / "MatchPatterns.java")],
        input="".join(json.dumps({"pattern": pattern, "names": NAMES}) + "\n" for pattern, _ in recorded),
        capture_output=True,
        text=True,
        check=True,
    )

    results = [json.loads(line) for line in re2j.stdout.splitlines()]
    current = [[pattern, result] for (pattern, _), result in zip(recorded, results, strict=True)]
    if os.environ.get("OTTLA_RECORD_REGULAR_EXPRESSIONS"):
        lines = [json.dumps(each, ensure_ascii=False) for each in current]
        RECORDED.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        assert current == recorded
