"""Rules about the source that no linter has: sizes, headers, and what belongs where."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=relative)
def test_a_file_and_its_functions_are_small(path: Path) -> None:
    text = path.read_text()
    long = [
        f"{node.name} ({length} lines)"
        for node in functions(ast.parse(text))
        if (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert text.count("\n") <= FILE_LINES_MAX, f"more than {FILE_LINES_MAX} lines: split it by concept"
    assert not long, f"longer than {FUNCTION_LINES_MAX} lines: {long}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_source_file_is_documented_and_finished(path: Path) -> None:
    text = path.read_text()
    is_empty_package = path.name == "__init__.py" and not text.strip()

    assert is_empty_package or ast.get_docstring(ast.parse(text)), "the module does not say what it is for"
    with path.open("rb") as file:
        comments = [token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    unfinished = [comment for comment in comments if re.search(r"\b(TODO|FIXME|XXX|HACK|for now)\b", comment)]
    assert not unfinished, unfinished


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_module_is_a_drawer_for_leftovers(path: Path) -> None:
    assert not re.search(r"(^|_)(utils?|helpers?|common|misc)(_|$)", path.stem)


@pytest.mark.parametrize("path", HANDLERS, ids=relative)
def test_a_handler_says_its_api_key_its_versions_and_its_source(path: Path) -> None:
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    registered = re.search(r"@serves\(api_key=(\d+), versions=range\((\d+), (\d+)\)(?:, has_few_entries=True)?\)", text)
    assert registered, "the decorator does not start with @serves(api_key=N, versions=range(A, B)"
    key, first, stop = (int(number) for number in registered.groups())

    versions = f"v{first}-v{stop - 1}" if stop - first > 1 else f"v{first}"
    assert f"(api key {key}, {versions})" in docstring
    assert "Source:" in docstring


def test_the_operator_folder_is_no_package() -> None:
    assert not (ROOT / "operator/__init__.py").exists(), "it would shadow the standard module `operator`"


@pytest.mark.parametrize("package", [ROOT / "broker", ROOT / "operator", ROOT / "spark-on-k8s"], ids=relative)
def test_tests_live_under_tests(package: Path) -> None:
    assert not list(package.rglob("test_*.py"))


def test_no_test_folder_is_a_package() -> None:
    assert not [relative(path) for path in TESTS if path.name == "__init__.py"]


@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=relative)
def test_every_test_claims_something(path: Path) -> None:
    """A test asserts, expects an exception, names the only ones allowed, or hands over to a function that checks."""
    claims = re.compile(r"^(assert|check|expect|require|run|settle|suppress|verify)")
    for node in functions(ast.parse(path.read_text())):
        if not node.name.startswith("test_"):
            continue
        calls = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
        # Nobody checks anything there.
        checking = [call for call in calls if ast.unparse(call) not in ("asyncio.run", "subprocess.run")]
        names = [getattr(call, "attr", getattr(call, "id", "")) for call in checking]
        asserts = any(isinstance(inner, ast.Assert | ast.ExceptHandler) for inner in ast.walk(node))
        assert asserts or "raises" in names or any(claims.match(name) for name in names), f"{node.name} claims nothing"


def imported_modules(path: Path) -> set[str]:
    """The modules that a file imports; `from a import b` counts as a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_every_module_is_reached_from_a_test() -> None:
    """No dead files: each module is imported by a test, or by a module that is."""
    modules = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            modules[name] = path
    # What the catalog and the command line import by name.
    entry_points = {name for name in modules if re.match(r"ottla\.(handlers|cli|wire\.messages)\.", name)}
    entry_points |= {name for name in modules if name.endswith("__main__")}
    reached: set[str] = set()
    frontier = {module for path in TESTS for module in imported_modules(path)} | entry_points
    while frontier:
        name = frontier.pop()
        if name in modules and name not in reached:
            reached.add(name)
            frontier |= imported_modules(modules[name])
    packages = {name.rpartition(".")[0] for name in reached}
    unreached = sorted(name for name in modules if name not in reached | packages and modules[name].read_text().strip())

    assert not unreached
