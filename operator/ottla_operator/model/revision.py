"""Why a node has to be restarted: digests of the inputs of its revision, part by part, kept on the node itself.

The revision says that a node is outdated; the parts say why. They are not part of the revision, so that another
encoding of the same inputs restarts no node.
"""

import hashlib
import json
from collections.abc import Mapping

IMAGE, RESTART = "image", "restart"
"""Parts that are shown by value, not by digest."""
_SHOWN_AS_IS = frozenset({IMAGE, RESTART})
_CONFIG = "config "
_SHOWN_MAX = 4


def encode(parts: Mapping[str, str], config: Mapping[str, str]) -> str:
    """Return the value kept on a node, in one line: ``parts`` by name without empty ones, and ``config`` by key."""
    said = {name: text if name in _SHOWN_AS_IS else _digest(text) for name, text in parts.items() if text}
    said |= {f"{_CONFIG}{key}": _digest(value) for key, value in config.items()}
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def changed_parts(before: str, now: str) -> frozenset[str]:
    """Return the names of the parts that differ; empty if one of the two is unknown."""
    old, new = _decode(before), _decode(now)
    if not old or not new:
        return frozenset()
    return frozenset(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def describe_changes(before: str, now: str) -> str:
    """Describe the differences for people; ``its configuration changed`` if they are unknown."""
    names = changed_parts(before, now)
    if not names:
        return "its configuration changed"
    said = []
    if IMAGE in names:
        said.append(f"image {_decode(before).get(IMAGE, '(none)')} -> {_decode(now).get(IMAGE, '(none)')}")
    if RESTART in names:
        said.append("annotation ottla.dev/restart")
    said += sorted(name for name in names - _SHOWN_AS_IS if not name.startswith(_CONFIG))
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
