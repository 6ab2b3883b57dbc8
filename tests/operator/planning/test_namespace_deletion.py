"""When a deleted object has waited for its brokers long enough, and the commands that remove its leftovers."""

import shlex
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.user import User
from ottla_operator.planning.namespace_deletion import describe_leftovers, is_overdue


@pytest.mark.parametrize(("now", "expected"), [("2026-01-01T00:04:59Z", False), ("2026-01-01T00:05:00Z", True)])
def test_objects_wait_for_five_minutes(now: str, expected: bool) -> None:
    assert is_overdue("2026-01-01T00:00:00Z", now) is expected


def test_names_are_quoted_for_a_shell(user_manifest: Any) -> None:
    user = replace(User.parse(user_manifest(type="tls")), name="CN=al ice")

    said = describe_leftovers(user, Waiting("BrokerUnreachable", "no broker responds"), None)

    commands = said.partition("to remove what stays: ")[2].partition(" (")[0].split("; ")
    assert [shlex.split(it)[-1] for it in commands] == ["CN=al ice", "User:CN=al ice", "CN=al ice"]
