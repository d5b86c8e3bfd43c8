"""A module whose import prints 100 MB and then fails."""

import os

for _ in range(100):
    os.write(1, b"x" * 2**20)
raise RuntimeError("after 100 MB")
