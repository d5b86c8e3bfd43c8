"""A module whose import changes everything that a process shares, and then fails."""

import os
import sys

os.chdir("/")
os.environ.clear()
sys.path.clear()
raise RuntimeError("lost")
