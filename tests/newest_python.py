"""Print the newest Python that is installed and newer than this one, as a path; nothing where there is none."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINOR_MAX = 40
IS_FINAL = "import sys; sys.exit(sys.version_info.releaselevel != 'final')"


def main() -> None:
    for minor in range(MINOR_MAX, sys.version_info.minor, -1):
        for command in installed(minor):
            # A shim of pyenv is found for versions that are not switched on, and ends with an error.
            if subprocess.run([command, "-c", IS_FINAL], capture_output=True, check=False).returncode == 0:
                print(command)
                return


def installed(minor: int) -> Iterator[str]:
    """Generate the interpreters of Python 3.``minor``: on the PATH, and of pyenv."""
    name = f"python3.{minor}"
    if command := shutil.which(name):
        yield command
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob(f"versions/*/bin/{name}"), reverse=True))


if __name__ == "__main__":
    main()
