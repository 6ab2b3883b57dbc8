"""Frames of every API and version, sound and broken, against a whole node in memory: a fixed budget on fixed seeds.

Whatever comes, the peer is answered with something that it can read, kept waiting, or cut off with one line that says
why; nothing escapes, nothing is logged as our own mistake, and what was refused has changed nothing. So it is for a
client that may do everything, for one that may do nothing, and for one that has not logged in.

OTTLA_FUZZ_FRAMES says how many frames of each version there are, 8 when it is not set.
"""

import logging
import random
import struct
import tracemalloc

import pytest

from fuzz_target import (
    LISTENERS,
    LOCKED,
    PERMITTED_TO_NOBODY,
    WITH_A_LOGIN,
    Target,
    check_lines,
    every_api_on_every_listener,
    mistakes,
    serve,
)
from fuzz_values import CORRELATION_ID, FRAMES_PER_VERSION, Chance, frames_of, header_of, list_fields
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.registry import ApiKey, request_type

LONG_LIST_SIZE = min(FRAMES_PER_VERSION * 40, 99_500)
BEFORE_A_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@every_api_on_every_listener
def test_every_frame_is_answered_kept_waiting_or_cut_off_with_a_reason(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = int(api_key) * 2 + (role is ListenerRole.CONTROLLER)
    target = Target.new(seed)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    caplog.set_level(logging.WARNING)
    caplog.set_level(logging.DEBUG, logger="ottla.network.connection_manager")
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()

        outcome = serve(target, frame, api_key, version, role, caplog)

        assert not mistakes(caplog), (api_key.name, version, frame.hex(), mistakes(caplog))
        if outcome == "closed":
            assert any("10.0.0.7:5000" in record.getMessage() for record in caplog.records), (version, frame.hex())
        if not target.is_intact:
            target = Target.new(seed)
            chance.topic_id = target.topic_id
    check_nothing_is_left(target)


@every_api_on_every_listener
def test_who_may_do_nothing_changes_nothing(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 1000 + int(api_key)
    target = Target.new(seed, **PERMITTED_TO_NOBODY)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    before = target.kept()
    caplog.set_level(logging.WARNING)
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()

        serve(target, frame, api_key, version, role, caplog)

        assert not mistakes(caplog), (api_key.name, version, frame.hex(), mistakes(caplog))
        assert target.kept() == before, (api_key.name, version, frame.hex())
        assert target.is_intact, (api_key.name, version, frame.hex())


@pytest.mark.parametrize("api_key", sorted(CATALOG), ids=lambda key: key.name.lower())
def test_who_has_not_logged_in_is_cut_off_and_changes_nothing(
    api_key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 2000 + int(api_key)
    target = Target.new(seed, **WITH_A_LOGIN)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    before = target.kept()
    caplog.set_level(logging.WARNING)
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()
        client = target.running.connect(LOCKED)

        client.send_bytes(struct.pack(">i", len(frame)) + frame)

        if api_key not in BEFORE_A_LOGIN:
            assert not client.peer.received, (version, frame.hex())
            # Guessing is slow: connection.failed.authentication.delay.ms.
            target.running.run(200)
            assert client.is_closed, (version, frame.hex())
        assert not mistakes(caplog), (api_key.name, version, frame.hex(), mistakes(caplog))
        assert target.kept() == before, (version, frame.hex())
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test is through with it")


@every_api_on_every_listener
def test_lists_up_to_their_limit_are_answered_or_close(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 5000 + int(api_key)
    target = Target.new(seed)
    chance = Chance(seed, target.topic_id)
    version = CATALOG[api_key].last_version
    caplog.set_level(logging.WARNING)
    for long_list in dict.fromkeys(list_fields(request_type(api_key), version)):
        chance.long_list, chance.long_list_size = long_list, LONG_LIST_SIZE
        caplog.clear()
        frame = header_of(api_key, version) + chance.message(request_type(api_key), version).encode(version)

        serve(target, frame, api_key, version, role, caplog)

        check_lines(caplog, (api_key.name, long_list))
        if not target.is_intact:
            target = Target.new(seed)
            chance.topic_id = target.topic_id


def check_nothing_is_left(target: Target) -> None:
    """Require that no connection and, once all deadlines have passed, no request is remembered."""
    node = target.running.node
    # The connection that created the topic may be left.
    assert len(node.connections) == 0 or node.connections.open_by_listener["PLAINTEXT"] == 1
    target.running.clock.advance(2**32)
    node.replicas.tick(target.running.clock.monotonic_ms())
    assert len(node.replicas.fetch_purgatory) == len(node.replicas.produce_purgatory) == 0


def test_noise_over_one_connection_after_another_is_cut_off_and_nobody_else_suffers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = Target.new(1)
    chance = random.Random(1)
    other = target.running.connect()
    caplog.set_level(logging.WARNING)
    before = target.state()
    tracemalloc.start()
    for _ in range(1_500):
        client = target.running.connect(chance.choice(list(LISTENERS.values())))
        noise = chance.randbytes(chance.randrange(1, 400))
        if chance.random() < 0.7:
            key, version = chance.choice(list(ApiKey)), chance.randrange(-1, 20)
            noise = struct.pack(">hhi", key, version, CORRELATION_ID) + noise
            noise = struct.pack(">i", len(noise)) + noise
        client.send_bytes(noise)
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test is through with it")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert not mistakes(caplog)
    assert target.state()[1:3] == before[1:3]
    assert peak_bytes < 32 * 1024 * 1024
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None
