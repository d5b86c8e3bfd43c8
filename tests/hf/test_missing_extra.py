"""Without transformers everything else works, and attnbench.hf says what to install."""

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["transformers"] = None
import attnbench
try:
    import attnbench.hf
except attnbench.UsageError as error:
    print(error)
"""


def test_the_missing_extra_says_its_pip_line() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert ended.stdout == "attnbench.hf needs transformers: pip install 'attnbench[hf]'\n"
