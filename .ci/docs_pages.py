"""Pages of the documentation site that are not files of docs/: made from the code, or taken from elsewhere in the tree."""

import re
from pathlib import Path
from typing import Any

import typer.cli
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import TypeAdapter
from typer.main import get_command

ROOT = Path(__file__).parents[1]
TAKEN = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"]
TABLES = "results/reference/*/*/*.md"
LINK = re.compile(r"(\]\(|\]: |src=\")([^)\s#\"]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated reference, and what pages link to outside docs/."""
    made = {"reference/commands.md": commands(), "reference/suite-keys.md": suite_keys()}
    outside = [*TAKEN, *(str(file.relative_to(ROOT)) for glob in ("impls/*/README.md", TABLES) for file in ROOT.glob(glob))]
    for path in outside:
        made["index.md" if path == "README.md" else path] = (ROOT / path).read_text(encoding="utf-8")
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    for picture in ROOT.glob("results/reference/*/*/**/*.png"):
        files.append(File.generated(config, str(picture.relative_to(ROOT)), abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links lead where their pages lie in the site: docs/ is its root, and the README its first page."""
    source = page.file.src_uri
    taken = source in ("index.md", *TAKEN) or source.startswith(("impls/", "results/"))
    here = Path("README.md" if source == "index.md" else source) if taken else Path("docs", source)

    def led(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        place = Path(*_resolved((here.parent / target).parts))
        if place.is_relative_to("docs"):
            place = place.relative_to("docs")
        if (ROOT / place).is_dir():
            place = next((place / name for name in ("README.md", "table.md") if (ROOT / place / name).exists()), place)
        place = Path("index.md") if place == Path("README.md") else place
        up = Path(*[".."] * (len(Path(source).parts) - 1))
        return f"{match[1]}{(up / place).as_posix()}"

    return LINK.sub(led, markdown)


def _resolved(parts: tuple[str, ...]) -> list[str]:
    """Return the parts of a path without its `..`."""
    found: list[str] = []
    for part in parts:
        found = found[:-1] if part == ".." else [*found, part]
    return found


def commands() -> str:
    """Return one section a command, as its help has it."""
    from attnbench.cli.app import app

    command: Any = get_command(app)
    with command.make_context("attnbench", [], resilient_parsing=True) as context:
        return typer.cli.get_docs_for_click(obj=command, ctx=context, name="attnbench", title="Commands")


def suite_keys() -> str:
    """Return one table for each part of a suite file, from the schema that reads it."""
    from attnbench.schema.model import Model
    from attnbench.schema.suite import Suite
    from attnbench.schema.training import Training

    schema = TypeAdapter(Suite).json_schema(mode="validation")
    parts = {"A suite": schema, **schema["$defs"]}
    lines = [
        "# Keys of a suite",
        "",
        "Made from the schema that reads suite files; [suites.md](../suites.md) explains them by examples.",
        "",
    ]
    for title, part in parts.items():
        if "properties" not in part:
            continue
        lines += [
            f"## {title}",
            "",
            (part.get("description") or "").partition("\n")[0],
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        for key, field in part["properties"].items():
            # the keys of `training` and `model` mean what the fields of one do, of which a suite may have several
            meaning = field.get("description") or (Training.model_fields | Model.model_fields)[key].description or ""
            default = "required" if key in part.get("required", []) else f"`{field.get('default')!r}`"
            lines.append(f"| `{key}` | {default} | {meaning.replace('|', '/')} |")
        lines.append("")
    return "\n".join(lines)
