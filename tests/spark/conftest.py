"""Fixtures of the pipeline's tests: the CSV, read once, and one small Spark session."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla_spark.flights import Event, csv_rows, events
from ottla_spark.jars import JarsError, resolve_jars
from ottla_spark.java import JavaMissingError, ensure_java
from ottla_spark.session import start_session
from ottla_spark.settings import PipelineSettings


@pytest.fixture(scope="session")
def rows() -> list[dict[str, str]]:
    return list(csv_rows())


@pytest.fixture(scope="session")
def flight_events(rows: list[dict[str, str]]) -> list[Event]:
    return events(rows)


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    """Kafka's connector and Delta: in the user's cache folder, or fetched into it."""
    try:
        return resolve_jars()
    except JarsError as failure:
        pytest.skip(str(failure))


@pytest.fixture(scope="session")
def spark(jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session in this process; Java's output goes to a file."""
    try:
        ensure_java()
    except JavaMissingError as failure:
        pytest.skip(str(failure))
    folder = tmp_path_factory.mktemp("spark")
    settings = PipelineSettings(
        bootstrap_servers="127.0.0.1:1",
        table_root=str(folder),
        checkpoint_root=str(folder),
        master="local[2]",
        driver_memory="1g",
    )
    session = start_session(settings, jars=jars, log_file=folder / "spark.log")
    yield session
    session.stop()
