"""Make `python -m pytest_kernelqual` the same as `kernelqual`."""

import sys

from pytest_kernelqual.cli import main

sys.exit(main())
