"""The one script of the site is typed, and the compiler says so."""

import subprocess
from pathlib import Path

import pytest

ASSETS = Path(__file__).parents[3] / "attnbench" / "report" / "site" / "assets"


@pytest.mark.slow
def test_the_script_passes_the_type_checker(tmp_path: Path) -> None:
    subprocess.run(["npm", "install", "--silent", "--prefix", tmp_path, "typescript@5"], check=True, capture_output=True)
    tsc = tmp_path / "node_modules/.bin/tsc"
    command = [
        str(tsc),
        "--noEmit",
        "--allowJs",
        "--checkJs",
        "--strict",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom,dom.iterable",
    ]
    done = subprocess.run([*command, str(ASSETS / "filter.js")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
