"""Rules about the source that no linter has: sizes, headers, and places of files.

Each is one test over all files, which names every offender: a test per file would be thousands.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sources

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "broker/ottla", ROOT / "operator/ottla_operator", ROOT / "spark-on-k8s/ottla_spark"]
SOURCES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
HANDLERS = sorted(
    path
    for path in (ROOT / "broker/ottla/handlers").glob("*.py")
    if re.search(r"^@serves\(", path.read_text(), re.MULTILINE)
)

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|for now)\b")
LEFTOVERS = re.compile(r"(^|_)(utils?|helpers?|common|misc)(_|$)")
CLAIM = re.compile(r"^(assert|check|expect|require|run|settle|suppress|verify)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True, slots=True)
class Module:
    """Facts about a Python file. Several rules read every file; the syntax trees of all would fill the memory."""

    docstring: str | None
    lengths: list[tuple[str, int]]
    """The name and the lines of each function."""
    idle_tests: list[str]
    """Tests that claim nothing."""
    imports: frozenset[str]
    """`from a import b` counts as a and a.b."""


@cache
def read_module(path: Path) -> Module:
    tree = ast.parse(path.read_text())
    lengths, idle, imports = [], [], set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                lengths.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
                if path.name.startswith("test_") and node.name.startswith("test_") and not claims_something(node):
                    idle.append(node.name)
            case ast.Import():
                imports.update(alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)) if module:
                imports.add(module)
                imports.update(f"{module}.{alias.name}" for alias in node.names)
    return Module(ast.get_docstring(tree), lengths, idle, frozenset(imports))


def test_files_and_functions_are_small() -> None:
    long = []
    for path in [*SOURCES, *TESTS]:
        if (lines := path.read_text().count("\n")) > FILE_LINES_MAX:
            long.append(f"{relative(path)}: {lines} lines; split it by concept, {FILE_LINES_MAX} are the most")
        for name, length in read_module(path).lengths:
            if length > FUNCTION_LINES_MAX:
                long.append(f"{relative(path)}: {name} has {length} lines; {FUNCTION_LINES_MAX} are the most")

    assert not long, "\n".join(long)


def test_each_module_has_a_docstring() -> None:
    written = [path for path in SOURCES if path.name != "__init__.py" or path.read_text().strip()]

    silent = [relative(path) for path in written if not read_module(path).docstring]

    assert not silent, "\n".join(silent)


def test_no_comment_marks_unfinished_work() -> None:
    found = [
        f"{relative(path)}: {comment.text}"
        for path in SOURCES
        for comment in sources.comments(path.read_text())
        if UNFINISHED.search(comment.text)
    ]

    assert not found, "\n".join(found)


def test_no_module_is_a_drawer_for_leftovers() -> None:
    found = [relative(path) for path in SOURCES if LEFTOVERS.search(path.stem)]

    assert not found, "\n".join(found)


def test_handlers_say_their_api_key_their_versions_and_their_source() -> None:
    found = [f"{relative(path)}: {missing}" for path in HANDLERS if (missing := undocumented_in_handler(path))]

    assert not found, "\n".join(found)


def undocumented_in_handler(path: Path) -> str | None:
    """Return the fields that the docstring of a handler's module lacks."""
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    registered = re.search(r"@serves\(api_key=(\d+), versions=range\((\d+), (\d+)\)(?:, has_few_entries=True)?\)", text)
    if registered is None:
        return "the decorator does not start with @serves(api_key=N, versions=range(A, B)"
    key, first, stop = (int(number) for number in registered.groups())
    versions = f"v{first}-v{stop - 1}" if stop - first > 1 else f"v{first}"
    required = [f"(api key {key}, {versions})", "Source:"]
    missing = [words for words in required if words not in docstring]
    return f"the docstring does not have {' and '.join(missing)}" if missing else None


def test_operator_folder_is_no_package() -> None:
    assert not (ROOT / "operator/__init__.py").exists(), "it would shadow the standard module `operator`"


def test_tests_live_under_tests() -> None:
    folders = [ROOT / "broker", ROOT / "operator", ROOT / "spark-on-k8s"]

    found = [relative(path) for folder in folders for path in folder.rglob("test_*.py")]

    assert not found, "\n".join(found)


def test_no_test_folder_is_a_package() -> None:
    assert not [relative(path) for path in TESTS if path.name == "__init__.py"]


def test_every_test_claims_something() -> None:
    """A test asserts, expects an exception, names the only ones allowed, or calls a function that checks."""
    idle = [f"{relative(path)}: {name}" for path in TESTS for name in read_module(path).idle_tests]

    assert not idle, "\n".join(idle)


def claims_something(test: ast.AST) -> bool:
    inside = list(ast.walk(test))
    if any(isinstance(inner, ast.Assert | ast.ExceptHandler) for inner in inside):
        return True
    calls = [call.func for call in inside if isinstance(call, ast.Call)]
    # These run something and check nothing.
    checking = [call for call in calls if ast.unparse(call) not in ("asyncio.run", "subprocess.run")]
    names = [getattr(call, "attr", getattr(call, "id", "")) for call in checking]
    return "raises" in names or any(CLAIM.match(name) for name in names)


def test_every_module_is_reached_from_a_test() -> None:
    """No dead files: each module is imported by a test, or by a module that is."""
    modules = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            modules[name] = path
    # Modules that the catalog and the command line import by name.
    entry_points = {name for name in modules if re.match(r"ottla\.(handlers|cli|wire\.messages)\.", name)}
    entry_points |= {name for name in modules if name.endswith("__main__")}
    reached: set[str] = set()
    frontier = {module for path in TESTS for module in read_module(path).imports} | entry_points
    while frontier:
        name = frontier.pop()
        if name in modules and name not in reached:
            reached.add(name)
            frontier |= read_module(modules[name]).imports
    packages = {name.rpartition(".")[0] for name in reached}
    unreached = sorted(name for name in modules if name not in reached | packages and modules[name].read_text().strip())

    assert not unreached, "\n".join(unreached)
