"""Epochs of sessions count the requests, without 0 and -1, which open and close a session."""

import pytest

from ottla.wire.session_epochs import INITIAL_EPOCH, next_epoch


@pytest.mark.parametrize(("epoch", "following"), [(INITIAL_EPOCH, 1), (1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)])
def test_greatest_epoch_is_followed_by_the_first_one_of_an_open_session(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following
