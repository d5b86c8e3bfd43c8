"""A module whose import hangs."""

import time

time.sleep(3600)
