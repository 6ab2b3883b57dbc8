"""``python -m ottla.simulator``: the same as ``ottla simulate``, where only the broker is installed."""

import sys

from ottla.simulator.runs.campaign import main

if __name__ == "__main__":
    sys.exit(main())
