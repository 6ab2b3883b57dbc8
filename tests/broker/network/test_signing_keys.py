"""An issuer's keys are fetched at once, periodically, with backoff after failures, and soon for an unknown key."""

import json
import logging
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla.config.oauth_settings import OauthSettings
from ottla.network import signing_keys
from ottla.network.signing_keys import UNKNOWN_KEY_INTERVAL_MS, IssuerKeys
from ottla.ports import KeyFetch
from ottla.sasl.tokens import InvalidTokenError
from ottla.simulator.world.clock import SimulatedClock

KEYS = {kid: ec.generate_private_key(ec.SECP256R1()) for kid in ("old", "new")}


def key_set(*kids: str) -> bytes:
    rows = [{**ECAlgorithm.to_jwk(KEYS[kid].public_key(), as_dict=True), "kid": kid} for kid in kids]
    return json.dumps({"keys": rows}).encode()


class Issuer:
    """A `KeySource` that returns results when the test says so."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.pending: list[Callable[[bytes | str], None]] = []
        settings = OauthSettings(
            fetch=KeyFetch("https://issuer/keys", False, 1, 1),
            issuer=None,
            audiences=(),
            skew_ms=0,
            subject_claim="sub",
            scope_claim="scope",
            refresh_ms=60_000,
            retry_backoff_ms=100,
            retry_backoff_max_ms=1_000,
        )
        self.keys = IssuerKeys(settings, clock=self.clock, source=self)

    def fetch_keys(self, fetch: KeyFetch, done: Callable[[bytes | str], None]) -> None:
        assert fetch.url == "https://issuer/keys"
        self.pending.append(done)

    def pass_time(self, milliseconds: int) -> int:
        """Advance the clock; return how many fetches are pending."""
        self.clock.advance(milliseconds)
        self.keys.tick(self.clock.monotonic_ms())
        return len(self.pending)

    def complete_fetch(self, result: bytes | str) -> None:
        self.pending.pop()(result)

    def token(self, kid: str) -> str:
        now_s = self.clock.wall_ms() // 1_000
        claims: dict[str, Any] = {"sub": "alice", "iat": now_s, "exp": now_s + 3_600}
        return jwt.encode(claims, KEYS[kid], "ES256", {"kid": kid})


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def test_keys_are_fetched_at_once_and_refreshed(issuer: Issuer) -> None:
    with pytest.raises(InvalidTokenError, match="have not been fetched yet"):
        issuer.keys.validate(issuer.token("old"))
    assert issuer.pass_time(0) == 1
    assert issuer.keys.next_deadline_ms() is None
    issuer.complete_fetch(key_set("old"))

    assert issuer.keys.validate(issuer.token("old")).subject == "alice"
    assert issuer.pass_time(59_999) == 0
    assert issuer.pass_time(1) == 1


def test_old_keys_are_kept_after_failures_and_backoff_doubles(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.pass_time(0)
    issuer.complete_fetch(key_set("old"))
    issuer.pass_time(60_000)
    rests = []
    with caplog.at_level(logging.INFO):
        for result in ("no route", b"{}", "no route", "no route", "no route", "no route"):
            issuer.complete_fetch(result)
            before_ms = issuer.clock.monotonic_ms()
            while not issuer.pass_time(1):
                pass
            rests.append(issuer.clock.monotonic_ms() - before_ms)
        issuer.complete_fetch(key_set("old"))

    assert rests == [100, 200, 400, 800, 1_000, 1_000]
    assert issuer.keys.validate(issuer.token("old")).subject == "alice"
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "https://issuer/keys: no route" in caplog.text


def test_unknown_key_triggers_a_fetch_at_a_limited_rate(issuer: Issuer) -> None:
    issuer.pass_time(0)
    issuer.complete_fetch(key_set("old"))
    with pytest.raises(InvalidTokenError):
        issuer.keys.validate(issuer.token("new"))
    assert issuer.pass_time(0) == 1
    issuer.complete_fetch(key_set("old"))
    for _ in range(10):
        with pytest.raises(InvalidTokenError):
            issuer.keys.validate(issuer.token("new"))
    assert issuer.pass_time(UNKNOWN_KEY_INTERVAL_MS - 1) == 0
    issuer.pass_time(1)
    with pytest.raises(InvalidTokenError):
        issuer.keys.validate(issuer.token("new"))
    assert issuer.pass_time(0) == 1
    issuer.complete_fetch(key_set("old", "new"))

    assert issuer.keys.validate(issuer.token("new")).subject == "alice"


def test_key_set_that_breaks_a_library_is_a_failed_fetch(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def choke(_: bytes) -> None:
        raise AttributeError("no such thing")

    issuer.pass_time(0)
    monkeypatch.setattr(signing_keys, "read_signing_keys", choke)
    issuer.complete_fetch(key_set("old"))

    assert "the key set cannot be read: AttributeError" in caplog.text
    assert issuer.pass_time(100) == 1
