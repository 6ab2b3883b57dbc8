"""Requests and responses of transactions, recorded from JVM Kafka 4.3.1 under each ``transaction.version``.

`scenario_file` describes the lines of ``scenarios/*.txt``. They are compared with a simulated broker of Ottla. To
compare them with one broker of JVM Kafka: OTTLA_SCENARIOS_BOOTSTRAP=HOST:PORT; to record its responses: also
OTTLA_SCENARIOS=rewrite. The recorded Kafka ran with
transaction.abort.timed.out.transaction.cleanup.interval.ms=500, transaction.state.log.replication.factor=1 and
transaction.state.log.min.isr=1.
"""

import os
from pathlib import Path

import pytest
import yaml

from ottla.wire.messages.registry import request_type
from scenario_broker import SimulatedDriver, SocketDriver, api_key_of
from scenario_file import parse, show

SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))
BOOTSTRAP = os.environ.get("OTTLA_SCENARIOS_BOOTSTRAP")
REWRITE = os.environ.get("OTTLA_SCENARIOS") == "rewrite"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_recorded_requests_are_encodable_and_have_a_response_for_each_version(path: Path) -> None:
    if REWRITE:
        return
    scenario = parse(path.read_text())
    for step in scenario.steps:
        if step.is_request:
            api, version, _ = step.request()
            assert version in request_type(api_key_of(api)).versions
            assert set(step.responses) == set(scenario.versions), step.line
            assert all(isinstance(yaml.safe_load(response), dict) for response in step.responses.values())


@pytest.mark.skipif(REWRITE, reason="the responses are being recorded")
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_responses_of_a_simulated_broker_are_those_of_kafka(path: Path) -> None:
    scenario = parse(path.read_text())
    for transaction_version in scenario.versions:
        responses = SimulatedDriver().run(scenario, path.stem, transaction_version)
        for index, response in responses.items():
            step = scenario.steps[index]
            assert response == step.expected_of_ottla(transaction_version), step.line


@pytest.mark.skipif(BOOTSTRAP is None, reason="OTTLA_SCENARIOS_BOOTSTRAP names no broker")
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_responses_of_running_jvm_kafka_are_those_recorded(path: Path) -> None:
    assert BOOTSTRAP is not None
    scenario = parse(path.read_text())
    driver = SocketDriver(BOOTSTRAP)
    try:
        for transaction_version in scenario.versions:
            responses = driver.run(scenario, path.stem, transaction_version)
            for index, response in responses.items():
                step = scenario.steps[index]
                if REWRITE:
                    step.responses[transaction_version] = response
                else:
                    assert response == step.responses[transaction_version], step.line
    finally:
        driver.close()
    if REWRITE:
        path.write_text(show(scenario))
