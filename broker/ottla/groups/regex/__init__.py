"""Regular expressions of consumer groups: checked when a member sends one, searched for among all topic names.

Kafka uses RE2J, whose syntax and matching are those of RE2: both take time linear in the length of a name. `pattern`
maps the few differences, `ottla.config.patterns` bounds what an expression may cost, and `search` matches it.
"""

from ottla.groups.regex.pattern import check_pattern
from ottla.groups.regex.search import resolve

__all__ = ["check_pattern", "resolve"]
