"""The version that clients and nodes send is that of the package."""

import tomllib
from pathlib import Path

from ottla import __version__


def test_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert __version__ == project["version"]
