"""A folder that is carried to a machine without a network: what is in it, what is left out, and that it can be set up."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import attnbench
from attnbench.library import bundle as module
from attnbench.library.bundle import collect
from attnbench.schema.errors import UsageError

Publish = Callable[..., None]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Puts a wheel where pip, which sees nothing else, finds it."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def made(name: str, version: str, *needs: str, tag: str = "py3-none-any") -> None:
        info = f"{name}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in needs)]
        with zipfile.ZipFile(index / f"{name}-{version}-{tag}.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            wheel.writestr(f"{info}/RECORD", "")

    return made


def collected(tmp_path: Path, requirement: str) -> tuple[tuple[str, ...], set[str]]:
    """What of a package is left out for another Python and machine, and what is there."""
    left_out = collect([Requirement(requirement)], tmp_path / "wheels", "3.12", "manylinux_2_28_x86_64")
    return left_out, {file.name for file in (tmp_path / "wheels").iterdir()}


def test_all_that_is_needed_is_there_for_the_other_python_but_what_torch_brings(publish: Publish, tmp_path: Path) -> None:
    nvidia = ("nvidia-cublas", "nvidia-ml-py", "nvidia-cuda-nvcc")
    publish("first", "1.0", "second>=2", "torch>=2", 'old; python_version < "3.12"', 'more; extra == "all"')
    publish("second", "2.1", *nvidia, "first", tag="cp312-cp312-manylinux_2_17_x86_64")
    publish("second", "2.2", tag="cp313-cp313-manylinux_2_17_x86_64")
    publish("second", "2.3", tag="cp312-cp312-manylinux_2_34_x86_64")
    publish("nvidia_ml_py", driver := version("nvidia-ml-py"))
    publish("nvidia_cuda_nvcc", "13.5", "nvidia-nvvm")
    publish("more", "1.0", "triton")
    left_out, wheels = collected(tmp_path, "first[all]")
    assert left_out == ("nvidia-cublas", "nvidia-nvvm", "torch", "triton")
    assert wheels == {
        "first-1.0-py3-none-any.whl",
        "second-2.1-cp312-cp312-manylinux_2_17_x86_64.whl",
        f"nvidia_ml_py-{driver}-py3-none-any.whl",
        "nvidia_cuda_nvcc-13.5-py3-none-any.whl",
        "more-1.0-py3-none-any.whl",
    }


def test_versions_are_those_installed_here_and_a_package_without_a_wheel_is_named(publish: Publish, tmp_path: Path) -> None:
    publish("pytest", here := pytest.__version__)
    publish("pytest", "99.0")
    assert collected(tmp_path, "pytest>=8") == ((), {f"pytest-{here}-py3-none-any.whl"})
    publish("first", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    with pytest.raises(UsageError, match=r"pip wheel first.*|first has no wheel for Python 3.12"):
        collected(tmp_path, "first")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"python": "312"}, "python='312': must be a version as 3.12"),
        ({"also": ["a b"]}, "also='a b': pip takes no such requirement"),
    ],
)
def test_what_pip_cannot_take_is_refused_before_a_file_is_made(options: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        attnbench.bundle(tmp_path / "new", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_no_folder_is_overwritten_and_one_is_made_from_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is there already"):
        attnbench.bundle(tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    with pytest.raises(UsageError, match="made from a checkout"):
        attnbench.bundle(tmp_path / "new")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_folder_that_was_carried_sets_itself_up_without_a_network(tmp_path: Path) -> None:
    python = "{}.{}".format(*sys.version_info[:2])
    made = attnbench.bundle(tmp_path / "carried", python=python)
    assert "torch" in made.left_out
    assert "sh setup.sh && . ./env.sh" in str(made)
    assert (made.folder / "attnbench" / "tests" / "conftest.py").is_file()
    assert not (made.folder / "attnbench" / "results").exists()
    environment = {**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1", "TMPDIR": str(tmp_path)}
    script = (
        "sh setup.sh && . ./env.sh && test -x site/nvidia/cu13/bin/ptxas && cd / && python=$PYTHON && "
        '$python -c "import attnbench; print(attnbench.__file__)" && $python -m attnbench plan gpu_sparse --assume h200'
    )
    done = subprocess.run(
        ["sh", "-c", script], cwd=made.folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(made.folder / "site") in done.stdout
    assert "8 cells, 8 to be measured" in done.stdout
