"""A module whose import dies."""

import os

os._exit(5)
