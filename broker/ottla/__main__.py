"""``python -m ottla``: the command, where no script directory is on PATH."""

import sys

from ottla.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
