"""The architecture as a test: imports point down only, and rooms on one floor do not import each other."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
# lowest first
FLOORS = (
    {"schema", "measure", "version"},
    {"api", "suite", "store", "analyze"},
    {"forms", "report"},
    {"registry"},
    {"training"},
    {"hf"},
    {"workloads"},
    {"worker", "pytest_plugin", "schedule"},
    {"places"},
    {"session"},
    {"library"},
    {"cli"},
    {"__main__"},
)
# within report/, lowest first: questions do not import each other
REPORT_FLOORS = (
    *({"text"}, {"findings"}, {"conditions"}, {"drawing"}, {"questions"}, {"headline"}, {"figures"}),
    *({"frame", "tables"}, {"console", "exports", "page"}, {"site", "write"}),
)
MOST_ENTRIES = 16
"""Of a folder of report/ that a reader is to find the way in."""
SEES_NOTHING = {"schema", "measure", "version"}
SHARED = ("attnbench_impls.partial.", "attnbench_impls.recurrence.")  # what several families are built from; no families
WITHOUT_TORCH = {"schema", "suite", "store", "analyze", "report", "session", "library", "cli"}
PACKAGE_DOOR = {"library", "registry", "schema", "session", "version"}
FILES = sorted(file for room in ("attnbench", "impls") for file in (ROOT / room).rglob("*.py"))
PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All imports of a file."""
    tree = ast.walk(ast.parse(file.read_text()))
    return tuple(node for node in tree if isinstance(node, ast.Import | ast.ImportFrom))


def imported(file: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, inside functions too; `a.b` for `from a import b`."""
    top, *inner = file.relative_to(ROOT).parent.parts or [""]
    package = ({"impls": "attnbench_impls"}.get(top, top), *inner)
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    """`schema` for attnbench.schema.cell.Cell."""
    return (*module.split("."), "")[1]


def allowed_in(room: str) -> set[str]:
    """The rooms that a room may import: itself and all floors below its own."""
    if room == "__init__":
        return PACKAGE_DOOR
    if room in SEES_NOTHING:
        return {room}
    level = next(i for i, floor in enumerate(FLOORS) if room in floor)
    # the command line is the first client of the package's own door
    return {room, *(["__init__"] if room == "cli" else [])}.union(*FLOORS[:level])


def rooms(file: Path) -> tuple[str, set[str]]:
    """The room of a file of attnbench, and the rooms that it imports."""
    own = file.relative_to(ROOT / "attnbench").with_suffix("").parts[0]
    names = {name for name in imported(file) if name.split(".")[0] == "attnbench"}
    known = set().union(*FLOORS)
    # `from attnbench import build` reaches through the package's own door
    return own, {room_of(name) if room_of(name) in known else "__init__" for name in names}


def within(*tops: str) -> list[Path]:
    return [file for file in FILES if file.relative_to(ROOT).with_suffix("").parts[: len(tops)] == tops]


def offences(files: Iterable[Path], of: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """By file, where there is one."""
    return {str(file.relative_to(ROOT)): found for file in files if (found := of(file))}


def test_imports_point_down() -> None:
    def up(file: Path) -> set[str]:
        own, reached = rooms(file)
        return reached - allowed_in(own)

    assert offences(within("attnbench"), up) == {}


def test_within_report_imports_point_down_and_no_question_imports_another() -> None:
    def part(name: str) -> str:
        """`text` for attnbench.report.text.table, `questions.trend` for attnbench.report.questions.trend.words."""
        _, _, first, *rest = (*name.split("."), "")
        return f"{first}.{rest[0]}" if first == "questions" else first

    def up(file: Path) -> set[str]:
        own = part(".".join(file.relative_to(ROOT).with_suffix("").parts))
        level = next(i for i, floor in enumerate(REPORT_FLOORS) if own.split(".")[0] in floor)
        below = set().union(*REPORT_FLOORS[:level])
        reached = {part(name) for name in imported(file) if name.startswith("attnbench.report.")}
        return {name for name in reached - {own} if name.split(".")[0] not in below}

    assert offences([file for file in within("attnbench", "report") if file.name != "__init__.py"], up) == {}


def test_no_folder_of_report_has_more_entries_than_a_reader_finds_the_way_in() -> None:
    for folder in {file.parent for file in within("attnbench", "report")}:
        entries = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
        assert len(entries) <= MOST_ENTRIES, folder


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in within("attnbench")}
    below = {
        module: {name if name in modules else name.rpartition(".")[0] for name in imported(file)} & modules.keys()
        for module, file in modules.items()
    }
    # raises CycleError, which names the circle
    TopologicalSorter(below).prepare()


def test_an_attention_imports_the_small_api_and_its_own_family_only_and_nobody_else_imports_it_by_name() -> None:
    def other(file: Path) -> set[str]:
        top, family, *_ = file.relative_to(ROOT).parts
        if top != "impls":
            return {name for name in imported(file) if name.split(".")[0] in {"impls", "attnbench_impls"}}
        own = ("attnbench.api.", *SHARED, f"attnbench_impls.{family}.")
        return {
            name for name in imported(file) if name.startswith(("attnbench", "impls", "tests")) and not name.startswith(own)
        }

    assert offences(FILES, other) == {}


def test_rooms_that_only_talk_never_import_torch() -> None:
    files = [file for room in WITHOUT_TORCH for file in within("attnbench", room)]
    assert offences(files, lambda file: {name.split(".")[0] for name in imported(file)} & {"torch"}) == {}


def test_nothing_is_pickled() -> None:
    assert offences(FILES, lambda file: {name.split(".")[0] for name in imported(file)} & PICKLES) == {}
    stored = re.compile(r"\b(torch|np|numpy)\.(save|load)\(")
    assert offences(FILES, lambda file: {match[0] for match in stored.finditer(file.read_text())}) == {}
    assert [file for file in FILES if "pickle" in file.read_text().lower()] == []


def test_every_room_stands_on_one_floor() -> None:
    tops = {path.stem for path in (ROOT / "attnbench").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(tops - {"__init__"}) == sorted(room for floor in FLOORS for room in floor)
