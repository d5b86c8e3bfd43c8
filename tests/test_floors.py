"""The architecture as a test: imports point down only, and rooms on one floor do not import each other."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

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
    {"text"},
    {"findings"},
    {"conditions"},
    {"drawing"},
    {"questions"},
    {"headline"},
    {"figures"},
    {"frame", "tables"},
    {"console", "exports", "page"},
    {"site", "write"},
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
    """All of a file's syntax that imports or calls."""
    tree = ast.walk(ast.parse(file.read_text()))
    return tuple(node for node in tree if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))


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


def called(file: Path) -> set[str]:
    """What a file calls by a name and one dot, as `torch.load`."""
    functions = (node.func for node in nodes(file) if isinstance(node, ast.Call))
    dotted = (function for function in functions if isinstance(function, ast.Attribute))
    return {f"{function.value.id}.{function.attr}" for function in dotted if isinstance(function.value, ast.Name)}


def in_each(top: str, files: Callable[[str], bool] = bool) -> pytest.MarkDecorator:
    """The files of each folder of the first level, together."""
    folders: dict[str, list[Path]] = {}
    for file in FILES:
        first, second, *_ = file.relative_to(ROOT).with_suffix("").parts
        if first.startswith(top) and files(second):
            folders.setdefault(f"{first}/{second}", []).append(file)
    return pytest.mark.parametrize("files", [pytest.param(found, id=folder) for folder, found in folders.items()])


def offences(files: list[Path], of: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """By file, where there is one."""
    return {str(file.relative_to(ROOT)): found for file in files if (found := of(file))}


@in_each("attnbench")
def test_imports_point_down(files: list[Path]) -> None:
    def up(file: Path) -> set[str]:
        own, reached = rooms(file)
        return reached - allowed_in(own)

    assert offences(files, up) == {}


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

    report = ROOT / "attnbench" / "report"
    assert offences([file for file in FILES if file.is_relative_to(report) and file.name != "__init__.py"], up) == {}


def test_no_folder_of_report_has_more_entries_than_a_reader_finds_the_way_in() -> None:
    for folder in {file.parent for file in FILES if file.is_relative_to(ROOT / "attnbench" / "report")}:
        entries = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
        assert len(entries) <= MOST_ENTRIES, folder


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in FILES if "impls" not in file.parts[:-1]}
    below = {
        module: {name if name in modules else name.rpartition(".")[0] for name in imported(file)} & modules.keys()
        for module, file in modules.items()
    }
    # raises CycleError, which names the circle
    TopologicalSorter(below).prepare()


def family(file: Path) -> str:
    """The folder of impls/ that a file is in, whatever its folder there."""
    return file.relative_to(ROOT / "impls").parts[0]


@in_each("impls")
def test_an_attention_imports_the_small_api_and_its_own_family_only(files: list[Path]) -> None:
    def other(file: Path) -> set[str]:
        own = ("attnbench.api.", *SHARED, f"attnbench_impls.{family(file)}.")
        ours = {name for name in imported(file) if name.startswith(("attnbench", "impls", "tests"))}
        return {name for name in ours if not name.startswith(own)}

    assert offences(files, other) == {}


@in_each("")
def test_no_attention_is_imported_by_name(files: list[Path]) -> None:
    def by_name(file: Path) -> set[str]:
        own = (f"attnbench_impls.{family(file)}.", *SHARED) if file.is_relative_to(ROOT / "impls") else ()
        reached = {name for name in imported(file) if name.split(".")[0] in {"impls", "attnbench_impls"}}
        return {name for name in reached if not name.startswith(own)}

    assert offences(files, by_name) == {}


@in_each("", WITHOUT_TORCH.__contains__)
def test_rooms_that_only_talk_never_import_torch(files: list[Path]) -> None:
    assert offences(files, lambda file: {name.split(".")[0] for name in imported(file)} & {"torch"}) == {}


@in_each("")
def test_nothing_is_pickled(files: list[Path]) -> None:
    assert offences(files, lambda file: {name.split(".")[0] for name in imported(file)} & PICKLES) == {}
    stored = {"torch.save", "torch.load", "np.save", "np.load", "numpy.load"}
    assert offences(files, lambda file: called(file) & stored) == {}
    assert [file for file in files if "pickle" in file.read_text().lower()] == []


def test_every_room_stands_on_one_floor() -> None:
    tops = {path.stem for path in (ROOT / "attnbench").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(tops - {"__init__"}) == sorted(room for floor in FLOORS for room in floor)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a.b, c", {"a.b", "c"}),
        ("from a.b import c, d", {"a.b.c", "a.b.d"}),
        ("def f():\n    from a import b", {"a.b"}),
        ("if TYPE_CHECKING:\n    import a", {"a"}),
        ("from . import load\nfrom ..store import lock", {"attnbench.suite.load", "attnbench.store.lock"}),
    ],
)
def test_every_form_of_import_is_seen_by_its_full_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: set[str]
) -> None:
    file = tmp_path / "attnbench" / "suite" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert set(imported(file)) == names
