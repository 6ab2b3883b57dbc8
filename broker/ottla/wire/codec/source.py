"""The source of a generated Python function: lines, names of its locals, and its constants."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ottla.wire.codec.primitives import packer

_ENTRIES_PER_STEP: Final = 32
"""Entries of arrays between two slice points: 0.3 to 2 us each, so a step stays well below 200 us."""


class FunctionSource:
    """Collects the body of one generated function and compiles it.

    ``is_resumable`` makes it a generator, which yields None at its slice points; without it they cost nothing.
    """

    def __init__(self, name: str, parameters: str, *, is_resumable: bool = False) -> None:
        self.name = name
        self.is_resumable = is_resumable
        self.scope: dict[str, Any] = {}
        self._lines = [f"def {name}({parameters}):"]
        self._depth = 1
        self._names = 0
        if is_resumable:
            self.line(f"until_yield = {_ENTRIES_PER_STEP}")

    def slice_point(self) -> None:
        """Make a resumable function yield here, once in `_ENTRIES_PER_STEP` times; at the head of a loop."""
        if self.is_resumable:
            self.line("until_yield -= 1")
            with self.block("if not until_yield:"):
                self.line(f"until_yield = {_ENTRIES_PER_STEP}")
                self.line("yield")

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write ``head`` and indent what is written inside the with statement."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def local(self, prefix: str) -> str:
        """Return an unused name for a local variable."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        """Make ``value`` visible to the function; return its name there."""
        for name, known in self.scope.items():
            if known is value:
                return name
        name = f"{prefix}_{len(self.scope)}"
        self.scope[name] = value
        return name

    def pack(self, form: str) -> str:
        return self._bound(f"pack_{form}", packer(form).pack)

    def unpack(self, form: str) -> str:
        return self._bound(f"unpack_{form}", packer(form).unpack_from)

    def _bound(self, name: str, method: object) -> str:
        # Bound methods are new objects at each lookup, so they are cached by name. "?" is not allowed in a name.
        name = name.replace("?", "B")
        self.scope.setdefault(name, method)
        return name

    def compile(self) -> Any:
        source = "\n".join(self._lines)
        exec(compile(source, f"<{self.name}>", "exec"), self.scope)  # noqa: S102 - our own source, as dataclasses does
        return self.scope[self.name]
