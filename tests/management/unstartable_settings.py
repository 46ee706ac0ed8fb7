"""The fixture site, whose workers cannot start while a file exists, as if a package that they need were broken."""

import os
import sys

from tests.management.settings import *  # noqa: F403

if "worker" in sys.argv and os.path.exists(os.environ["NO_WORKER_WHILE"]):
    raise SystemExit("this worker's package is broken")
