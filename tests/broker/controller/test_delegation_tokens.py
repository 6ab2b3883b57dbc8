"""Delegation tokens are created, renewed, expired and removed with Kafka's rules, on the controller's wall clock."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.controller import delegation_tokens as module
from ottla.controller.config import ControllerConfig
from ottla.controller.delegation_tokens import DelegationTokenControl
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode
from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, Provenance
from ottla.metadata.metadata_version import LATEST_METADATA_VERSION
from ottla.security.delegation_tokens import DelegationTokens
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

ALICE, BOB, EVE = "User:alice", "User:bob", "User:eve"
LIFETIME_MS, RENEWAL_MS, CHECK_MS = 10_000, 1_000, 5_000


class World:
    """A controller's decisions about tokens, each applied at once."""

    def __init__(self, *, secret: str | None = "secret", metadata_version: int = LATEST_METADATA_VERSION) -> None:
        self.clock = SimulatedClock()
        random = SeededRandom(1)
        self.tokens = DelegationTokens(secret, self.clock, random)
        self.state = ControllerState()
        self.state.replay(bootstrap_records(metadata_version), Provenance(0, 0, 0))
        config = replace(
            ControllerConfig(),
            token_lifetime_ms_max=LIFETIME_MS,
            token_renewal_ms=RENEWAL_MS,
            token_expiry_check_interval_ms=CHECK_MS,
        )
        self.control = DelegationTokenControl(self.state, self.tokens, config, clock=self.clock, random=random)
        self.control.start(self.clock.monotonic_ms())

    def apply(self, result: Any) -> Any:
        """Replay and publish the records of a result; return its response."""
        records = list(result.records)
        delta = MetadataDelta(self.state.image)
        for record in records:
            delta.replay(record.message)
        self.state.replay(records, Provenance(1, 0, 0))
        self.tokens.publish(delta, self.state.image)
        return result.response

    def create(self, requester: str = ALICE, **fields: Any) -> Any:
        return self.apply(self.control.create(CreateDelegationTokenRequest(**fields), requester))

    def renew(self, secret: bytes, requester: str = ALICE, period_ms: int = -1) -> Any:
        request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
        return self.apply(self.control.renew(request, requester))

    def expire(self, secret: bytes, requester: str = ALICE, period_ms: int = -1) -> Any:
        request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
        return self.apply(self.control.expire(request, requester))

    @property
    def stored(self) -> dict[str, DelegationToken]:
        return dict(self.state.image.delegation_tokens.tokens)


@pytest.fixture
def world() -> World:
    return World()


def renewers(*names: str) -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type="User", principal_name=name) for name in names]


def test_token_has_the_requested_owner_renewers_and_times(world: World) -> None:
    now_ms = world.clock.wall_ms()

    created = world.create(
        owner_principal_type="User", owner_principal_name="bob", renewers=renewers("carol"), max_lifetime_ms=3_000
    )

    assert created.error_code == ErrorCode.NONE
    assert world.stored == {
        created.token_id: DelegationToken(
            token_id=created.token_id,
            owner=BOB,
            requester=ALICE,
            renewers=("User:carol",),
            issue_ms=now_ms,
            max_ms=now_ms + 3_000,
            expiry_ms=now_ms + RENEWAL_MS,
        )
    }
    assert (created.principal_name, created.token_requester_principal_name) == ("bob", "alice")
    assert created.hmac == world.tokens.hmac(created.token_id)
    assert len(created.hmac) == 64


@pytest.mark.parametrize(
    ("requested_ms", "lifetime_ms", "expiry_ms"),
    [
        pytest.param(-1, LIFETIME_MS, RENEWAL_MS, id="default"),
        pytest.param(LIFETIME_MS + 1, LIFETIME_MS, RENEWAL_MS, id="longer-than-the-maximum"),
        pytest.param(500, 500, 500, id="shorter-than-a-renewal"),
        pytest.param(2**63 - 1, LIFETIME_MS, RENEWAL_MS, id="largest-number"),
    ],
)
def test_lifetime_is_bounded(world: World, requested_ms: int, lifetime_ms: int, expiry_ms: int) -> None:
    created = world.create(max_lifetime_ms=requested_ms)

    issued_ms = created.issue_timestamp_ms
    assert (created.max_timestamp_ms, created.expiry_timestamp_ms) == (issued_ms + lifetime_ms, issued_ms + expiry_ms)


@pytest.mark.parametrize("requester", [ALICE, BOB])
def test_owner_and_renewers_renew_up_to_the_maximum(world: World, requester: str) -> None:
    created = world.create(renewers=renewers("bob"))
    for _ in range(12):
        world.clock.advance(900)
        renewed = world.renew(created.hmac, requester)
        assert renewed.error_code == ErrorCode.NONE or world.clock.wall_ms() > created.max_timestamp_ms

    assert renewed.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert world.stored[created.token_id].expiry_ms == created.max_timestamp_ms


@pytest.mark.parametrize(
    ("period_ms", "expected_ms"), [(-1, RENEWAL_MS), (0, RENEWAL_MS), (10, 10), (5_000, RENEWAL_MS)]
)
def test_renewal_is_at_most_the_configured_time(world: World, period_ms: int, expected_ms: int) -> None:
    created = world.create()
    world.clock.advance(100)

    renewed = world.renew(created.hmac, period_ms=period_ms)

    assert renewed.expiry_timestamp_ms == world.clock.wall_ms() + expected_ms


@pytest.mark.parametrize("change", [World.renew, World.expire], ids=["renew", "expire"])
def test_strangers_and_forged_secrets_are_rejected(world: World, change: Callable[..., Any]) -> None:
    created = world.create()
    before = world.stored

    assert change(world, created.hmac, EVE).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert change(world, created.hmac[:-1] + b"x").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert change(world, b"").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert world.stored == before


def test_expired_token_is_neither_renewed_nor_shortened_but_removed(world: World) -> None:
    created = world.create()
    world.clock.advance(RENEWAL_MS)
    assert world.expire(created.hmac, period_ms=RENEWAL_MS).error_code == ErrorCode.NONE, "valid up to its last ms"
    world.clock.advance(RENEWAL_MS + 1)

    assert world.renew(created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert world.expire(created.hmac, period_ms=10).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    removed = world.expire(created.hmac)
    assert (removed.error_code, removed.expiry_timestamp_ms) == (ErrorCode.NONE, world.clock.wall_ms())
    assert world.stored == {}
    assert world.renew(created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_tokens_are_removed_at_the_interval(world: World) -> None:
    for _ in range(3):
        world.create(max_lifetime_ms=1_000)
    kept = world.create(max_lifetime_ms=LIFETIME_MS)
    world.expire(kept.hmac, period_ms=LIFETIME_MS)
    world.clock.advance(CHECK_MS - 1)
    assert world.control.run_round(world.clock.monotonic_ms()) is None

    world.clock.advance(1)
    now_ms = world.clock.monotonic_ms()
    assert world.control.next_deadline_ms() == now_ms
    removals = world.control.run_round(now_ms)
    assert removals is not None
    assert not removals.is_atomic, "the decision queue appends them in slices"
    world.apply(removals)

    assert set(world.stored) == {kept.token_id}
    assert world.control.next_deadline_ms() == world.clock.monotonic_ms() + CHECK_MS


def test_number_of_tokens_and_renewers_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOKENS_PER_REQUESTER_MAX", 2)
    monkeypatch.setattr(module, "TOKENS_MAX", 3)

    codes = [world.create(each).error_code for each in (ALICE, ALICE, ALICE, BOB, EVE)]

    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION, 0, ErrorCode.POLICY_VIOLATION]
    many = renewers(*map(str, range(module.RENEWERS_MAX + 1)))
    assert world.create(renewers=many).error_code == ErrorCode.INVALID_REQUEST


def test_reached_limits_are_logged_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TOKENS_PER_REQUESTER_MAX", 2)
    monkeypatch.setattr(module, "TOKENS_MAX", 3)
    for requester, advance_ms in ((ALICE, 0), (ALICE, 0), (ALICE, 0), (ALICE, 1_000), (BOB, 0), (EVE, 0)):
        world.create(requester)
        world.clock.advance(advance_ms)

    world.create(EVE)
    world.clock.advance(1_000)
    world.create(EVE)

    assert [message.split(";")[0] for message in caplog.messages] == [
        "no delegation token for 'User:alice': it created 2, as many as a client may",
        "no delegation token for 'User:eve': there are 3, as many as a cluster may have",
        "no delegation token for 'User:eve': there are 3, as many as a cluster may have",
    ]
    assert caplog.messages[-1].endswith("5 such rejections so far")


@pytest.mark.parametrize("too_many", [0, 1], ids=["4-KiB", "more"])
@pytest.mark.parametrize("longest", ["owner", "renewer", "renewers"])
def test_names_of_a_token_are_bounded(world: World, longest: str, too_many: int) -> None:
    taken = len(ALICE) * 2 if longest != "owner" else len(ALICE)
    left = module.PRINCIPALS_BYTES_MAX - taken + too_many - len("User:")
    fields: dict[str, Any] = {"renewers": renewers("x" * left)}
    if longest == "owner":
        fields = {"owner_principal_type": "User", "owner_principal_name": "x" * left}
    elif longest == "renewers":
        # Bytes count, not characters.
        fields = {"renewers": renewers("ü" * 500, "x" * (left - len("User:") - 1_000))}

    created = world.create(**fields)

    assert created.error_code == (ErrorCode.INVALID_REQUEST if too_many else ErrorCode.NONE)
    assert len(world.stored) == 1 - too_many


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        pytest.param({"secret": None}, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, id="no-key"),
        pytest.param({"secret": ""}, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, id="empty-key"),
        pytest.param({"metadata_version": 13}, ErrorCode.UNSUPPORTED_VERSION, id="old-metadata-version"),
    ],
)
def test_every_request_fails_where_tokens_are_not_enabled(settings: dict[str, Any], code: ErrorCode) -> None:
    world = World(**settings)

    for response in (world.create(), world.renew(b"x"), world.expire(b"x")):
        assert response.error_code == code


def test_records_of_an_image_build_the_same_image(world: World) -> None:
    for number in range(3):
        world.create(renewers=renewers(f"r{number}"))
    world.expire(world.tokens.hmac(next(iter(world.stored))))
    image = world.state.image

    delta = MetadataDelta(EMPTY_IMAGE)
    for record in image.records():
        delta.replay(record.message)

    assert delta.apply(image.provenance).delegation_tokens == image.delegation_tokens


def test_snapshot_removes_tokens_that_it_does_not_name(world: World) -> None:
    world.create()
    delta = MetadataDelta(world.state.image)

    delta.finish_snapshot()

    assert delta.apply(Provenance()).delegation_tokens.tokens == {}
