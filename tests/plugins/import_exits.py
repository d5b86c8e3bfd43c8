"""A module whose import exits."""

import sys

sys.exit(4)
