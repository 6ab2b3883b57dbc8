"""Free a message with very many entries in steps: freeing 90,000 objects at once takes 10 to 30 ms."""

from collections.abc import Generator
from typing import Any, Final

from ottla.wire.codec.message import Message, Struct

_ENTRIES_PER_STEP: Final = 128


def lists_of(struct: Struct) -> list[list[Any]]:
    """Return copies of the lists in a struct, so that the struct itself can be freed and its entries stay."""
    lists = [getattr(struct, key, None) for key, field in struct.fields.items() if field.kind == "array"]
    return [list(each) for each in lists if isinstance(each, list) and each]


def free_in_steps(lists: list[list[Any]]) -> Generator[None, None, None]:
    """Empty ``lists``, which nothing else refers to, and those of the entries in them.

    Entries that something else refers to stay as they are: only these lists are emptied.
    """
    while lists:
        entries = lists[-1]  # stays in ``lists`` until it is empty: after a cancellation the rest is still there
        some = entries[-_ENTRIES_PER_STEP:]
        if not some:
            lists.pop()
            continue
        del entries[-_ENTRIES_PER_STEP:]
        for entry in some:
            if isinstance(entry, Struct):
                lists += lists_of(entry)
        del some, entry  # no references while waiting for the next step
        yield


def take_lists(message: Message) -> list[list[Any]]:
    """Remove the lists from ``message``, which may still be referred to but no longer used."""
    lists = lists_of(message)
    for key, field in message.fields.items():
        if field.kind == "array":
            setattr(message, key, [])
    return lists
