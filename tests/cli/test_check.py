"""`attnbench check`: whether a method is what it says to be, with nothing timed, for whoever writes one."""

import re
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Find, Run, Write

MINE = "from plain import Plain\n\n\nclass Mine(Plain):\n    pass\n"


def test_ones_own_class_is_checked_wherever_its_file_lies(attnbench: Run, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "random.py").write_text(MINE)
    done = attnbench("check", "deep/random.py:Mine")
    assert done.returncode == 0, done.stderr
    first, *lines, last = done.stdout.splitlines()
    assert first == "deep/random.py:Mine"
    assert last == "correct, as far as these checks go"
    for line, shape in zip(lines, ("B=1, H=2, N=64", "B=2, H=3, N=321"), strict=False):
        assert line.startswith(f"  not causal, with gradients, {shape}: correct; at most ")
    assert "  causal, padded: not checked: it takes no key mask, so there can be no padding" in lines
    assert "  causal, token by token: not checked: it does not decode token by token" in lines
    assert not (tmp_path / "results").exists()


def test_a_built_in_method_is_checked_in_every_way_that_it_can_be_called(here: Run) -> None:
    done = here("check", "linear.chunked", "--param", "chunk=16", "--dtype", "float64", "--width", "16")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("linear.chunked(chunk=16)\n")
    assert "  causal, token by token, B=1, H=2, N=64: correct; at most " in done.stdout
    assert "  not causal: not checked: " in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "WrongValues",
            [
                "incorrect: output off by",
                "every number is 1.001 times what is right; also off: gradient of q, gradient of k, gradient of v",
            ],
        ),
        ("WrongGradient", ["incorrect: gradient of k off by", "right: output, gradient of q, gradient of v"]),
        # its other calls are correct
        (
            "HasNoMask",
            [
                "it is what comes of seeing later keys: the causal mask is missing",
                "  not causal, with gradients, B=2, H=3, N=321: correct",
            ],
        ),
        ("Leaks", ["incorrect: causality (earlier outputs, when the future changes) off by"]),
        ("RaisesInItsCheck", ["error: ValueError: this method is out of order (faulty.py:"]),
        ("Exits", ["error: the process ended with exit code 3 and no answer"]),
        ("Declines", ["nothing could be checked"]),
    ],
)
def test_what_is_not_correct_is_said_and_is_exit_code_1(name: str, words: list[str], here: Run) -> None:
    done = here("check", f"faulty:{name}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert [each for each in words if each not in done.stdout + done.stderr] == []
    assert done.stderr == ("nothing could be checked\n" if name == "Declines" else "not correct\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("softmax.spda",), "no method 'softmax.spda'; did you mean 'softmax.sdpa'"),
        (("faulty:Unfinished",), "faulty:Unfinished is not finished: it has no paper, no reference"),
        (("faulty:NeedsAPackage",), "pip install 'a-package-that-nobody-has>=2'"),
        (("import_raises:Method",), "import_raises:Method: RuntimeError: cannot be imported today (import_raises.py:"),
        (("plain:Plain", "--param", "chunk=3"), "--param chunk: the method has no such parameter"),
        (("plain:Plain", "--param", "chunk"), "--param chunk: write it as name=value"),
        (("plain:Plain", "--dtype", "half"), "--dtype half: 'half' is not known; write one of 'float64', 'float32'"),
        (("plain:Plain", "--device", "tpu"), "--device tpu: 'tpu' is not a device; write auto, cpu, cuda or cuda:1"),
        (("plain:Plain", "--N", "1000000000000"), "--N"),
    ],
)
def test_bad_input_is_exit_code_2_and_words(arguments: tuple[str, ...], words: str, here: Run) -> None:
    done = here("check", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_attention_that_contributing_shows_runs_beside_the_others(
    attnbench: Run, suite: Write, only_run: Find, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "my_attention.py").write_text(textwrap.dedent(found.group(1)), encoding="utf-8")
    text = (
        "name: s\naxes: {N: 128, H: 2, D: 16, causal: [true, false]}\nworkloads: [forward, forward_backward]\n"
        "methods: [softmax.sdpa]\nbudget: {seconds: 0.2}\nreplicates: 1\nreport: {plots: []}\n"
    )
    done = attnbench("run", suite(text), "--impl", "my_attention:MeanOfValues")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(only_run() / "table.csv")
    mine = table[table["method"] == "my_attention:MeanOfValues"]
    assert set(zip(mine["causal"], mine["status"], strict=True)) == {(True, "unsupported"), (False, "ok")}
