"""The commands that docs/ shows, run as they stand there: those of pages in a lab where all is small, and tutorials whole.

The peers and the recipes have tests of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"peers.md", "pytest.md", "scale.md"}
"""Pages whose commands need what others test: packages of others, a file of pytest, clusters."""
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SUITE = """name: {name}
axes: {{N: [128, 256], H: 1, D: 16, causal: true}}
workloads: [forward, decode]
methods: [softmax.sdpa, linear.full, linear.chunked]
budget: {{seconds: 0.05}}
replicates: 2
report: {{tables: [summary], plots: []}}
"""
SMALLER = {
    "maxlen quick": " --limit 1024",
    "maxlen linear": " --limit 1024",
    "maxlen decode": " --method linear.chunked --limit 128",
    "selfcheck": " --verdicts 2 --replicates 2 --seconds 0.1",
    "run --methods": " --replicates 2",
    "--measure": " --max-points 1 --replicates 2",
}
"""What is added to commands that would search up to the size of this machine, or for half an hour."""
STORED = "20260102-030405-abcdef", "20260203-040506-fedcba"
COMMANDS = list(
    dict.fromkeys(
        (page.name, line.partition("  #")[0].strip())
        for page in PAGES
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if not language and line.startswith("attnbench ")
    )
)


def shell(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a user's shell would, with this environment's commands on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    who = {f"GIT_{role}_{what}": "x@y.z" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "PATH": path, "BROWSER": "true"}
    line = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the suites of the pages are small ones, and the runs that they name are there."""
    lab = tmp_path_factory.mktemp("lab")
    (lab / "suites").mkdir()
    for name in ("quick", "scaling", "boundary-1", "decode", "suites/attention.yaml"):
        (lab / name).write_text(SUITE.format(name=Path(name).stem))
    shell(lab, "git init -q && git add . && git commit -qm one && git update-ref refs/remotes/origin/main HEAD")
    for run in ("run quick", "run quick", "run scaling", "run scaling", "run boundary-1", "maxlen quick", "selfcheck"):
        done = shell(lab, f"attnbench {run}{SMALLER.get(run, '')}")
        assert done.returncode == 0, done.stderr
    for suite in (lab / "results").iterdir():
        for run_folder, name in zip(sorted(suite.iterdir()), STORED, strict=False):
            shutil.move(run_folder, suite / name)
    shutil.copytree(lab / "results" / "quick" / STORED[0], lab / "kept")
    return lab


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_the_docs_does_what_it_says(lab: Path, page: str, command: str) -> None:
    line = command.replace("s3://bucket", (lab / "bucket").as_uri())
    line += next((more for word, more in SMALLER.items() if word in line and "results/" not in line), "")
    # a process of xdist may have taken another of these commands before
    shutil.rmtree(lab / "history", ignore_errors=True)
    if "trend history" in line or "site history" in line:
        shell(lab, f"attnbench history add results/quick/{STORED[0]} --to history")
    line = line.replace("results/ref", f"{ROOT}/results/ref") if "results/ref" in line else line.replace("8192", "256")
    done = shell(lab, line)
    # two commits alike may be UNCLEAR on a busy machine; a small boundary-1 is not the one that ships
    right = {0, 3} if " gate " in line else {1} if " verify results/" in line else {0}
    assert done.returncode in right, f"{page}: {line}\n{done.stdout}{done.stderr}"


def test_pages_show_commands() -> None:
    assert len(COMMANDS) > 30


WRITTEN = re.compile(r"[Ww]rite `([\w./]+)`")
"""The name of a file, where the text says that the next block is to be written into it."""
SET_UP = re.compile(r"^(python3 -m venv .*|\. \.venv/bin/activate)$\n?", re.MULTILINE)
"""What CI's own set-up has done already."""
ATTENTION = """name: attention
axes: {N: [128, 256], H: 2, D: 32, causal: true}
methods: [softmax.sdpa, linear.chunked]
budget: {seconds: 0.05}
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_newcomer_gets_through_a_tutorial(page: Path, tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "attention.yaml").write_text(ATTENTION)
    shell(tmp_path, "git init -q && git add . && git commit -qm one && git commit -qm two --allow-empty")
    text, end, ran, named = page.read_text(encoding="utf-8"), 0, 0, ""
    for block in BLOCK.finditer(text):
        written, language, content = WRITTEN.findall(text[end : block.start()]), block[1], block[2]
        end = block.end()
        if written and language in {"yaml", "python"}:
            (tmp_path / written[-1]).write_text(content)
        elif not language:
            script = named + SET_UP.sub("", content)
            done = shell(tmp_path, script)
            # a gate may find that two commits alike are UNCLEAR on a busy machine
            codes = {0, 3} if "attnbench gate" in content else {0}
            assert done.returncode in codes, f"{script}\n{done.stdout}{done.stderr}"
            # a newcomer types all blocks into one shell, which knows what was named before
            named = "".join(f"{line}\n" for line in script.splitlines() if re.match(r"[A-Z]+=", line))
            ran += 1
    assert ran
