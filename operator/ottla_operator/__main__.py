"""``python -m ottla_operator``: the container's entry point."""

import sys

from ottla_operator.main import main

sys.exit(main())
