"""Why a node has to be restarted: a digest of every part of what it runs with, on the node itself.

The revision of a node says that it is outdated; these say in what. They are no part of the revision, so that other
words for the same thing restart nobody.
"""

import hashlib
import json
from collections.abc import Mapping

IMAGE, RESTART = "image", "restart"
"""Parts that are told as they are, not by a digest."""
_TOLD = frozenset({IMAGE, RESTART})
_CONFIG = "config "
_SHOWN_MAX = 4


def encode(parts: Mapping[str, str], config: Mapping[str, str]) -> str:
    """Return what is kept on a node, in one line: ``parts`` by name, empty ones left out, and ``config`` by key."""
    said = {name: text if name in _TOLD else _digest(text) for name, text in parts.items() if text}
    said |= {f"{_CONFIG}{key}": _digest(value) for key, value in config.items()}
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def changed(before: str, now: str) -> frozenset[str]:
    """Return the names of the parts that differ; empty where either is not known."""
    old, new = _decode(before), _decode(now)
    if not old or not new:
        return frozenset()
    return frozenset(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def words(before: str, now: str) -> str:
    """Return for people what differs between two; ``its configuration changed`` where that is not known."""
    names = changed(before, now)
    if not names:
        return "its configuration changed"
    said = []
    if IMAGE in names:
        said.append(f"image {_decode(before).get(IMAGE, '(none)')} -> {_decode(now).get(IMAGE, '(none)')}")
    if RESTART in names:
        said.append("annotation ottla.dev/restart")
    said += sorted(name for name in names - _TOLD if not name.startswith(_CONFIG))
    configs = sorted(name.removeprefix(_CONFIG) for name in names if name.startswith(_CONFIG))
    if configs:
        more = f" and {len(configs) - _SHOWN_MAX} more" if len(configs) > _SHOWN_MAX else ""
        said.append(f"config {', '.join(configs[:_SHOWN_MAX])}{more}")
    return "; ".join(said)


def _decode(text: str) -> dict[str, str]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
