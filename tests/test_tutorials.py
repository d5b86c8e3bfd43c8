"""The tutorials of docs/: their files and commands, block after block, in a folder of a newcomer's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITTEN = re.compile(r"[Ww]rite `([\w./]+)`")
"""The name of a file, where the text says that the next block is to be written into it."""
NAMED = re.compile(r"[A-Z]+=")
SET_UP = re.compile(r"^(python3 -m venv .*|\. \.venv/bin/activate)$\n?", re.MULTILINE)
"""What CI's own set-up has done already."""
SUITE = """name: attention
axes: {N: [128, 256], H: 2, D: 32, causal: true}
methods: [softmax.sdpa, linear.chunked]
budget: {seconds: 0.05}
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_newcomer_gets_through_a_tutorial(page: Path, tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "attention.yaml").write_text(SUITE)
    shell(tmp_path, "git init -q && git add . && git commit -qm one && git commit -qm two --allow-empty", {0})
    text, end, ran, named = page.read_text(encoding="utf-8"), 0, 0, ""
    for block in BLOCK.finditer(text):
        written, language, content = WRITTEN.findall(text[end : block.start()]), block[1], block[2]
        end = block.end()
        if written and language in {"yaml", "python"}:
            (tmp_path / written[-1]).write_text(content)
        elif not language:
            # a gate may find that two commits alike are UNCLEAR on a busy machine
            script = named + SET_UP.sub("", content)
            shell(tmp_path, script, {0, 3} if "attnbench gate" in content else {0})
            # a newcomer types all blocks into one shell, which knows what was named before
            named = "".join(f"{line}\n" for line in script.splitlines() if NAMED.match(line))
            ran += 1
    assert ran


def shell(folder: Path, script: str, codes: set[int]) -> None:
    """Run a block as a newcomer's shell would, with this environment's commands on the path."""
    who = {f"GIT_{role}_{what}": "x@y.z" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **who, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in codes, f"{script}\n{done.stdout}{done.stderr}"
