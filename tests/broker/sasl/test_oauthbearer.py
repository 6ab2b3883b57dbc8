"""The client's side of OAUTHBEARER."""

import pytest

from ottla.sasl.client_login import TokenLogin
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.sasl.oauthbearer import OauthClient

TOKEN = "aaa.bbb-_.ccc"


def test_token_is_presented_and_accepted() -> None:
    exchange = TokenLogin(lambda: f"{TOKEN}\n").new_exchange(lambda stop: 0)
    assert exchange.first() == b"n,,\x01auth=Bearer aaa.bbb-_.ccc\x01\x01"
    assert not exchange.is_complete
    assert exchange.evaluate(b"") is None
    assert exchange.is_complete


def test_rejection_is_acknowledged_and_then_raised_without_the_token() -> None:
    exchange = OauthClient(TOKEN)
    assert exchange.evaluate(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailedError, match="invalid_token") as caught:
        exchange.evaluate(b"")
    assert not exchange.is_complete
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "bad\x01token"], ids=["empty", "blank", "separator"])
def test_malformed_token_is_not_sent(token: str) -> None:
    with pytest.raises(AuthenticationFailedError, match="no token to present"):
        TokenLogin(lambda: token).new_exchange(lambda stop: 0)


def test_each_authentication_requests_the_current_token() -> None:
    tokens = iter(["first", "second"])
    login = TokenLogin(lambda: next(tokens))
    assert b"first" in login.new_exchange(lambda stop: 0).first()
    assert b"second" in login.new_exchange(lambda stop: 0).first()
