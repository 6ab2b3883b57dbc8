"""Frames of every API and version, valid and corrupt, against a complete node in memory: a fixed budget on fixed seeds.

For every frame the peer gets a response that it can decode, waits, or is disconnected with one line that gives the
reason; no exception escapes or is logged as a defect, and a rejected request changes nothing. This holds for a client
with all permissions, one without any, and one that is not authenticated.

OTTLA_FUZZ_FRAMES is the number of frames per version, by default 8.
"""

import logging
import random
import struct
import tracemalloc

import pytest

from fuzz_target import (
    LISTENERS,
    LOCKED,
    NO_PERMISSIONS,
    WITH_SASL,
    Target,
    check_lines,
    every_api_on_every_listener,
    logged_defects,
    serve,
)
from fuzz_values import CORRELATION_ID, FRAMES_PER_VERSION, RandomValues, frames_of, header_of, list_fields
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.registry import ApiKey, request_type

LONG_LIST_SIZE = min(FRAMES_PER_VERSION * 40, 99_500)
BEFORE_A_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@every_api_on_every_listener
def test_every_frame_is_served_kept_waiting_or_rejected_with_a_reason(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = int(api_key) * 2 + (role is ListenerRole.CONTROLLER)
    target = Target.new(seed)
    random_values = RandomValues(seed, target.topic_id)
    row = CATALOG[api_key]
    caplog.set_level(logging.WARNING)
    caplog.set_level(logging.DEBUG, logger="ottla.network.connection_manager")
    for version, frame in frames_of(api_key, random_values, range(row.first_version, row.last_version + 1)):
        caplog.clear()

        outcome = serve(target, frame, api_key, version, role, caplog)

        assert not logged_defects(caplog), (api_key.name, version, frame.hex(), logged_defects(caplog))
        if outcome == "closed":
            assert any("10.0.0.7:5000" in record.getMessage() for record in caplog.records), (version, frame.hex())
        if not target.is_intact:
            target = Target.new(seed)
            random_values.topic_id = target.topic_id
    check_nothing_is_left(target)


@every_api_on_every_listener
def test_client_without_permissions_changes_nothing(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 1000 + int(api_key)
    target = Target.new(seed, **NO_PERMISSIONS)
    random_values = RandomValues(seed, target.topic_id)
    row = CATALOG[api_key]
    before = target.kept()
    caplog.set_level(logging.WARNING)
    for version, frame in frames_of(api_key, random_values, range(row.first_version, row.last_version + 1)):
        caplog.clear()

        serve(target, frame, api_key, version, role, caplog)

        assert not logged_defects(caplog), (api_key.name, version, frame.hex(), logged_defects(caplog))
        assert target.kept() == before, (api_key.name, version, frame.hex())
        assert target.is_intact, (api_key.name, version, frame.hex())


@pytest.mark.parametrize("api_key", sorted(CATALOG), ids=lambda key: key.name.lower())
def test_unauthenticated_client_is_disconnected_and_changes_nothing(
    api_key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 2000 + int(api_key)
    target = Target.new(seed, **WITH_SASL)
    random_values = RandomValues(seed, target.topic_id)
    row = CATALOG[api_key]
    before = target.kept()
    caplog.set_level(logging.WARNING)
    for version, frame in frames_of(api_key, random_values, range(row.first_version, row.last_version + 1)):
        caplog.clear()
        client = target.running.connect(LOCKED)

        client.send_bytes(struct.pack(">i", len(frame)) + frame)

        if api_key not in BEFORE_A_LOGIN:
            assert not client.peer.received, (version, frame.hex())
            # Failures are delayed: connection.failed.authentication.delay.ms.
            target.running.run(200)
            assert client.is_closed, (version, frame.hex())
        assert not logged_defects(caplog), (api_key.name, version, frame.hex(), logged_defects(caplog))
        assert target.kept() == before, (version, frame.hex())
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test has finished with it")


@every_api_on_every_listener
def test_lists_up_to_their_limit_are_served_or_close_the_connection(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 5000 + int(api_key)
    target = Target.new(seed)
    random_values = RandomValues(seed, target.topic_id)
    version = CATALOG[api_key].last_version
    caplog.set_level(logging.WARNING)
    for long_list in dict.fromkeys(list_fields(request_type(api_key), version)):
        random_values.long_list, random_values.long_list_size = long_list, LONG_LIST_SIZE
        caplog.clear()
        frame = header_of(api_key, version) + random_values.message(request_type(api_key), version).encode(version)

        serve(target, frame, api_key, version, role, caplog)

        check_lines(caplog, (api_key.name, long_list))
        if not target.is_intact:
            target = Target.new(seed)
            random_values.topic_id = target.topic_id


def check_nothing_is_left(target: Target) -> None:
    """Require that no connection and, once all deadlines have passed, no request is left."""
    node = target.running.node
    # The connection that created the topic may still be open.
    assert len(node.connections) == 0 or node.connections.open_by_listener["PLAINTEXT"] == 1
    target.running.clock.advance(2**32)
    node.replicas.tick(target.running.clock.monotonic_ms())
    assert len(node.replicas.fetch_purgatory) == len(node.replicas.produce_purgatory) == 0


def test_noise_closes_its_connections_and_affects_no_other_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = Target.new(1)
    random_values = random.Random(1)
    other = target.running.connect()
    caplog.set_level(logging.WARNING)
    before = target.state()
    tracemalloc.start()
    for _ in range(1_500):
        client = target.running.connect(random_values.choice(list(LISTENERS.values())))
        noise = random_values.randbytes(random_values.randrange(1, 400))
        if random_values.random() < 0.7:
            key, version = random_values.choice(list(ApiKey)), random_values.randrange(-1, 20)
            noise = struct.pack(">hhi", key, version, CORRELATION_ID) + noise
            noise = struct.pack(">i", len(noise)) + noise
        client.send_bytes(noise)
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test has finished with it")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert not logged_defects(caplog)
    assert target.state()[1:3] == before[1:3]
    assert peak_bytes < 32 * 1024 * 1024
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None
