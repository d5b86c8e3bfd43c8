"""Recipes and pages: they parse, and each command that they show is one that the command line has, with those options."""

import configparser
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from attnbench.cli.app import app

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "docs" / "recipes"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = [ROOT / "docs" / "ci.md", ROOT / "docs" / "pytest.md"]
BEFORE = {"if", "!", "then", "do", "else", "{", "time", "exec", "sudo", "run:", "-", "$"}
_PUNCTUATION = ";|&()<>"
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(attnbench [^`]+)`")


def commands(script: str) -> list[list[str]]:
    """The words after each `attnbench` of a shell script, whatever stands around the command."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        for words in _simple_commands(line):
            while words and (words[0] in BEFORE or re.match(r"\w+=", words[0])):
                words = words[1:]
            if words and Path(words[0]).name == "attnbench":
                found.append(words[1:])
    return found


def _simple_commands(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        # an apostrophe: no line of a shell
        return
    words: list[str] = []
    for token in [*tokens, ";"]:
        if token and set(token) <= set(_PUNCTUATION):
            yield words
            words = []
        else:
            words.append(token)


def shown(page: Path) -> list[list[str]]:
    """The commands of a page's blocks and of its running text."""
    text = page.read_text(encoding="utf-8")
    blocks = FENCE.findall(text)
    inline = INLINE.findall(FENCE.sub("", text))
    return [words for script in (*blocks, *inline) for words in commands(script)]


@cache
def command_line() -> Any:
    """All commands, as typer makes them."""
    return get_command(app)


def complaint(words: list[str]) -> str | None:
    """What the command line does not have of this; … and WORDS stand for something."""
    command = command_line()
    words = [word.strip("[]…,") for word in words]
    while hasattr(command, "commands"):
        if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
            break
        if words[0] not in command.commands:
            return f"no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help", "-h"}
    unknown = [word for word in words if re.match(r"-{1,2}[A-Za-z]", word) and word.partition("=")[0] not in known]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else None


def parse(words: list[str]) -> None:
    """As the command line would, without running anything; raises its usage errors."""
    command = command_line()
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))


def scripts(workflow: Path) -> list[str]:
    """What its steps run."""
    jobs = YAML(typ="safe", pure=True).load(workflow)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


# -- the reader itself


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("attnbench run quick", [["run", "quick"]]),
        ("cd x && .venv/bin/attnbench run quick  # a minute", [["run", "quick"]]),
        ("A=1 attnbench run \\\n  quick > out.txt", [["run", "quick"]]),
        ("if ! attnbench plan quick; then attnbench doctor; fi", [["plan", "quick"], ["doctor"]]),
        ('{ echo; attnbench report "$A b"/*/; } | tee x', [["report", "$A b/*/"]]),
        ("pip install attnbench", []),
        ("# attnbench run quick", []),
    ],
)
def test_commands_are_found_in_a_script(script: str, words: list[list[str]]) -> None:
    assert commands(script) == words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run quick --replicates 5", None),
        ("run SUITE [--device cuda] …", None),
        ("…", None),
        ("runs quick", "no command 'runs'"),
        ("run quick --replicate 5", "run has no --replicate"),
        ("--version", None),
    ],
)
def test_what_the_command_line_lacks_is_complained_of(command: str, words: str | None) -> None:
    assert complaint(command.split()) == words


def test_a_page_shows_commands_in_blocks_and_in_its_text(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Say `attnbench doctor`, or:\n\n```\nattnbench run quick\nit's done\n```\n\nthe attnbench command\n")
    assert sorted(shown(page)) == [["doctor"], ["run", "quick"]]


# -- what it reads


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: Path) -> None:
    complaints = {" ".join(words): complaint(words) for words in shown(page)}
    assert {words: said for words, said in complaints.items() if said} == {}


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.name)
def test_every_block_of_our_pages_parses(page: Path) -> None:
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        for words in commands(block):
            parse(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", FENCE.sub("", page.read_text(encoding="utf-8")))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_workflow_is_made_of_steps_that_parse() -> None:
    workflow = YAML(typ="safe", pure=True).load(RECIPES / "attention.yml")
    assert set(workflow["on"]) == {"pull_request", "push"}
    assert set(workflow["jobs"]) == {"gate", "trend"}
    for job in workflow["jobs"].values():
        assert {"if", "runs-on", "timeout-minutes", "steps"} <= set(job)
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1"))


def test_no_step_pastes_what_comes_from_outside_into_a_script() -> None:
    assert [script for script in scripts(RECIPES / "attention.yml") if "${{" in script] == []


def test_the_workflow_gates_keeps_and_looks_back() -> None:
    used = [words[0] for script in scripts(RECIPES / "attention.yml") for words in commands(script)]
    assert used == ["gate", "run", "history", "trend"]


@pytest.mark.parametrize(
    "script", [*scripts(RECIPES / "attention.yml"), (RECIPES / "nightly.sh").read_text()], ids=lambda s: s[:20]
)
def test_scripts_are_shell_and_their_commands_parse(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for words in commands(script):
        parse(words)


def test_the_night_checks_itself_measures_keeps_and_looks_back() -> None:
    used = [words[0] for words in commands((RECIPES / "nightly.sh").read_text())]
    assert used == ["selfcheck", "run", "history", "trend"]
    assert os.access(RECIPES / "nightly.sh", os.X_OK)


STAND_IN = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$LOG"
if [ "$1" = run ]; then mkdir -p "${@: -1}/suite/id"; fi
"""


def test_the_night_goes_through_with_commands_that_only_say_so(tmp_path: Path) -> None:
    programs, state = tmp_path / "checkout" / ".venv" / "bin", tmp_path / "state"
    programs.mkdir(parents=True)
    for name in ("attnbench", "pip", "git"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    said = []
    for _ in range(2):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        command = [str(RECIPES / "nightly.sh"), str(tmp_path / "checkout"), str(state), "quick"]
        done = subprocess.run(command, env={**os.environ, "LOG": str(log)}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append([" ".join(line.split()[:2]) for line in log.read_text().splitlines()])
    night = ["attnbench run", "attnbench history", "attnbench trend"]
    assert said[0] == ["git pull", "pip install", "attnbench selfcheck", *night]
    assert said[1] == ["git pull", "pip install", *night]
    assert sorted(path.name for path in state.iterdir()) == ["selfcheck.done"]


def test_the_night_says_what_it_needs() -> None:
    done = subprocess.run([str(RECIPES / "nightly.sh")], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: nightly.sh CHECKOUT STATE [SUITE]" in done.stderr


def test_the_timer_starts_the_night() -> None:
    units = {}
    for kind in ("service", "timer"):
        units[kind] = configparser.ConfigParser(interpolation=None)
        units[kind].optionxform = str  # type: ignore[assignment,method-assign]
        units[kind].read(RECIPES / f"attention.{kind}")
    program, *arguments = shlex.split(units["service"]["Service"]["ExecStart"])
    assert program.endswith("docs/recipes/nightly.sh")
    assert 2 <= len(arguments) <= 3
    assert units["timer"]["Timer"]["OnCalendar"]
    assert units["timer"]["Install"]["WantedBy"] == "timers.target"
