"""Pages and recipes: the commands that they show are there, links lead somewhere; codes and answers are all told."""

import ast
import configparser
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML
from typer.main import get_command

from attnbench.analyze.cells import NOT_RUN, OK
from attnbench.analyze.compare import Exit
from attnbench.cli import terminal
from attnbench.cli.app import app
from attnbench.places.lane import LaneTakenError
from attnbench.report.text.statuses import short
from attnbench.schema.outcome import Status

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "docs" / "recipes"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND_LINE = get_command(app)
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


def resolved(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words begin with, as typer makes it, and the words after it."""
    command: Any = COMMAND_LINE
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def complaint(words: list[str]) -> str | None:
    """What the command line does not have of this; … and WORDS stand for something."""
    command, words = resolved([word.strip("[]…,") for word in words])
    if hasattr(command, "commands") and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return f"no command {words[0]!r}"
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help", "-h"}
    unknown = [word for word in words if re.match(r"-{1,2}[A-Za-z]", word) and word.partition("=")[0] not in known]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else None


def parse_all(script: str) -> list[str]:
    """As the command line would, without running anything; raises its usage errors. Gives the names of the commands."""
    shown = commands(script)
    for command, left in map(resolved, shown):
        command.make_context(command.name, left)
    return [words[0] for words in shown]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_and_its_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = FENCE.sub("", text)
    shown = [words for script in (*FENCE.findall(text), *INLINE.findall(prose)) for words in commands(script)]
    complaints = {" ".join(words): complaint(words) for words in shown}
    assert {words: said for words, said in complaints.items() if said} == {}
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_workflow_gates_keeps_and_looks_back_in_steps_that_parse() -> None:
    workflow = YAML(typ="safe", pure=True).load(RECIPES / "attention.yml")
    assert set(workflow["on"]) == {"pull_request", "push"}
    assert set(workflow["jobs"]) == {"gate", "trend"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all({"if", "runs-on", "timeout-minutes"} <= set(job) for job in workflow["jobs"].values())
    assert all(("run" in step) != ("uses" in step) for step in steps)
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    scripts = [step["run"] for step in steps if "run" in step]
    assert [script for script in scripts if "${{" in script] == [], "what comes from outside is pasted into a script"
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert [name for script in scripts for name in parse_all(script)] == ["gate", "run", "history", "trend"]


STAND_IN = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$LOG"
if [ "$1" = run ]; then mkdir -p "${@: -1}/suite/id"; fi
"""


def test_the_night_checks_itself_once_measures_keeps_and_looks_back(tmp_path: Path) -> None:
    night = RECIPES / "nightly.sh"
    assert parse_all(night.read_text()) == ["selfcheck", "run", "history", "trend"]
    # with commands that only say so
    programs, state = tmp_path / "checkout" / ".venv" / "bin", tmp_path / "state"
    programs.mkdir(parents=True)
    for name in ("attnbench", "pip", "git"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    said = []
    for _ in range(2):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        command = [str(night), str(tmp_path / "checkout"), str(state), "quick"]
        done = subprocess.run(command, env={**os.environ, "LOG": str(log)}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append([" ".join(line.split()[:2]) for line in log.read_text().splitlines()])
    measured = ["attnbench run", "attnbench history", "attnbench trend"]
    assert said == [["git pull", "pip install", *checked, *measured] for checked in (["attnbench selfcheck"], [])]
    assert sorted(path.name for path in state.iterdir()) == ["selfcheck.done"]
    done = subprocess.run([str(night)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: nightly.sh CHECKOUT STATE [SUITE]" in done.stderr


def test_the_timer_starts_the_night() -> None:
    service, timer = configparser.ConfigParser(interpolation=None), configparser.ConfigParser(interpolation=None)
    service.read(RECIPES / "attention.service")
    timer.read(RECIPES / "attention.timer")
    program, *arguments = shlex.split(service["Service"]["ExecStart"])
    assert program.endswith("docs/recipes/nightly.sh")
    assert 2 <= len(arguments) <= 3
    assert timer["Timer"]["OnCalendar"]
    assert timer["Install"]["WantedBy"] == "timers.target"


CODES = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
ENDS = {"sys.exit", "os._exit", "SystemExit", "typer.Exit", "exit"}


def table(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, its head first."""
    lines = CODES.partition(f"## {heading}\n")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if not set("".join(row)) <= {"-"}]


HEAD, *ROWS = table("Exit codes of commands")


def all_commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, set[str]]]:
    """All commands with the names of their parameters."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield f"{before}{name}", set(command.callback.__annotations__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        callback = inner.typer_instance.registered_callback
        if callback is not None and callback.invoke_without_command is True:
            yield f"{before}{inner.name}", set()
        yield from all_commands(inner.typer_instance, f"{before}{inner.name} " if isinstance(inner.name, str) else before)


def test_every_command_and_no_other_has_its_row_with_a_code_for_all_that_it_can_end_with() -> None:
    rows = {row[0].strip("`"): dict(zip(HEAD[1:], row[1:], strict=True)) for row in ROWS}
    assert set(rows) == dict(all_commands(app)).keys()
    for name, parameters in all_commands(app):
        row = rows[name]
        assert all(row[code] for code in ("0", "1", "2", "129, 130, 143")), name
        assert bool(row["75"]) == ("no_wait" in parameters), name
        assert bool(row["3"]) == bool(row["4"]) == (name in {"gate", "compare"}), name


def test_every_exit_code_has_its_column_and_no_command_ends_with_a_number_that_has_no_name() -> None:
    named = {value for name, value in vars(terminal).items() if name.isupper() and isinstance(value, int)}
    named |= {0, LaneTakenError.exit_code, *Exit}
    interrupted = {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    assert {int(code) for column in HEAD[1:] for code in column.split(",")} == named | interrupted
    # but children and servers, whose codes no user sees
    files = [file for file in (ROOT / "attnbench").rglob("*.py") if file.parent.name != "worker"]
    calls = [(f, node) for f in files for node in ast.walk(ast.parse(f.read_text("utf-8"))) if isinstance(node, ast.Call)]
    ends = [
        (file.name, node.args or [k.value for k in node.keywords]) for file, node in calls if ast.unparse(node.func) in ENDS
    ]
    assert [file for file, given in ends if isinstance(next(iter(given), None), ast.Constant)] == []


def test_every_status_has_its_row_in_the_words_of_tables_and_no_other() -> None:
    _, *rows = table("Statuses of cells")
    said = {row[0].strip("`"): row[1] for row in rows}
    assert said == {status: short(status) for status in (OK, NOT_RUN, *(status.value for status in Status))}
    assert all(row[2] for row in rows)


def flags(file: Path) -> Iterator[str]:
    """What a file flags: keys that a function of that name chooses from, the flag of a counter, and one that may be added."""
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.endswith("flags"):
            keys = [key for each in ast.walk(node) if isinstance(each, ast.Dict) for key in each.keys]
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))
    for found in re.findall(r'flag=[^"\n]*"(\w+)"|flags, "(\w+)"|\("(\w+)",\) if .* else \(\)', text):
        yield "".join(found)


def test_every_flag_of_a_measurement_has_its_row_and_no_other() -> None:
    files = [file for room in ("measure", "worker", "workloads") for file in (ROOT / "attnbench" / room).glob("*.py")]
    assert {row[0].strip("`") for row in table("Flags of measurements")[1:]} == {flag for file in files for flag in flags(file)}


def test_contributing_names_files_that_are_there_and_at_most_three_that_hold_an_answer() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [path for path in re.findall(r"`((?:attnbench|tests)/[\w/.]+)`", text) if not (ROOT / path).exists()] == []
    answers = re.split(r"^- ", text.partition("## Where things are")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]
    assert len(answers) >= 5
    for answer in answers:
        assert len(re.findall(r"[\w/]+\.py", answer)) <= 3, answer
        for name, path in re.findall(r"`(\w+(?:\.\w+)?)`[^`]* in\s+`([\w/]+\.py)`", answer):
            code = (ROOT / path).read_text(encoding="utf-8")
            assert all(re.search(rf"\b{part}\b", code, re.IGNORECASE) for part in name.split(".")), answer
