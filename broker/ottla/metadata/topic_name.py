"""Rules for topic names.

Source: Topic of Apache Kafka; the texts are Kafka's.
"""

import re
from typing import Final

from ottla.quoting import cut_name

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_topic_name_reason(name: str) -> str | None:
    """Return why ``name`` is no name for a topic; None when it is one."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{cut_name(name)}' is longer than the max allowed length "
            f"{NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{cut_name(name)}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def may_collide(name: str) -> bool:
    """Whether the name has a character that metric names do not distinguish."""
    return "." in name or "_" in name


def colliding_form(name: str) -> str:
    """Return the form by which two topics collide."""
    return name.replace(".", "_")
