"""What a user reads who made a mistake in a suite file: file, line, column, key, and what would be right."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.suite.load import SuiteError, load

GOOD = "name: a\naxes: {N: 8}\nmethods: [m]\n"
AT_MOST, AT_LEAST, WHOLE = "should be less than or equal to", "should be greater than or equal to", "should be a valid integer"
NOT_A_BATCH = "is not a batch; write 512, 2^9, a range 2^9..2^16, or max"


Errors = Callable[[str], list[str]]


@pytest.fixture
def errors(tmp_path: Path) -> Errors:
    """The lines in which a file with this content is refused, each without the name of the folder."""

    def _errors(content: str) -> list[str]:
        (tmp_path / "x.yaml").write_text(content)
        with pytest.raises(SuiteError) as refused:
            load(str(tmp_path / "x.yaml"))
        return [line.removeprefix(f"{tmp_path}/") for line in str(refused.value).split("\n")]

    return _errors


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("replicats: 5", "4:1: replicats: unknown key; did you mean 'replicates'? known here: axes, budget, "),
        ("on:\n  cpu:\n    axes:\n      tokns: 1", "7:7: on.cpu.axes.tokns: unknown key; did you mean 'tokens'? "),
        ("budget: {secs: 3}", "4:10: budget.secs: unknown key; did you mean 'seconds'? known here: check_timeout, memory, "),
        ("replicates: three", f"4:1: replicates: input {WHOLE}; it is 'three'"),
        ("replicates: 0", f"4:1: replicates: input {AT_LEAST} 1; it is 0"),
        ("replicates: 1000000000000", f"4:1: replicates: input {AT_MOST} 1000000; it is 1000000000000"),
        ("memory_replicates: 10000000", f"4:1: memory_replicates: input {AT_MOST} 1000000; it is 10000000"),
        ("on: {cpu: {replicates: 10000000}}", f"4:12: on.cpu.replicates: input {AT_MOST} 1000000; it is 10000000"),
        ("on: {gpu: {}}", "4:6: on.gpu: 'gpu' is not known; write one of 'cpu' or 'cuda'"),
        ("source: 3", "4:1: source: input should be a valid string; it is 3"),
        ("budget: {memory: 1.5}", f"4:10: budget.memory: input {AT_MOST} 1; it is 1.5"),
        ("budget: {timeout: 1e10}", f"4:10: budget.timeout: input {AT_MOST} 1728000; it is 10000000000.0"),
        ("budget: {seconds: 1e10}", f"4:10: budget.seconds: input {AT_MOST} 172800; it is 10000000000.0"),
        ("training: {task: copy, rate: 0}", "4:24: training.rate.0: input should be greater than 0; it is 0"),
        ("training: {symbols: [10, 5000]}", f"4:26: training.symbols.1: input {AT_MOST} 4096; it is 5000"),
        ("training: {late_from: -1}", f"4:12: training.late_from.0: input {AT_LEAST} 0; it is -1"),
        ("device: tpu", "4:1: device: 'tpu' is not a device; write auto, cpu, cuda or cuda:1"),
        ("device: cuda:99999999999", "4:1: device: 'cuda:99999999999' is not a device; write auto, cpu, cuda or cuda:1"),
        (
            "workloads: [forward, sideways]",
            "4:22: workloads.1: 'sideways' is not known; "
            "write one of 'forward', 'forward_backward', 'backward', 'prefill', 'verify', 'decode', 'decode_total', "
            "'fidelity', 'numerics', 'train', 'generate', 'model_prefill', 'model_decode', 'model_train' or 'model_quality'",
        ),
        (
            "published: [{where: T, what: w, comparable: claim, ours: {metric: time, workload: forward, of: {method: mm}}}]",
            "4:97: published.0.ours.of.method: 'mm' is not a method of this suite; did you mean 'm'? it has m",
        ),
        ("report: {baselines: [n]}", "4:22: report.baselines.0: 'n' is not a method of this suite; it has m"),
        ("report: {labels: {n: N}}", "4:19: report.labels.n: 'n' is not a method of this suite; it has m"),
        (
            "workloads: [train]\non: {cuda: {training: {task: copy}}}",
            "1:1: training is missing for cpu; train and generate need a model: training: {task: copy}",
        ),
        ("name: b", "4:1: the key 'name' is written twice"),
    ],
)
def test_an_unknown_key_or_a_value_that_does_not_fit_is_placed_and_told_what_fits(errors: Errors, text: str, want: str) -> None:
    (line,) = errors(f"{GOOD}{text}\n")
    assert line.startswith(f"x.yaml:{want}")


@pytest.mark.parametrize(
    ("axis", "want"),
    [
        ("zzz: 1", "2:14: axes.zzz: unknown key; known here: B, D, H, "),
        ("dtyp: x", "2:14: axes.dtyp: unknown key; did you mean 'dtype'? "),
        ("N: 9", "2:14: the key 'N' is written twice"),
        ("B: maximum", f"2:14: axes.B: 'maximum' {NOT_A_BATCH}"),
        ("B: [1, maximum]", f"2:14: axes.B: 'maximum' {NOT_A_BATCH}"),
        ("B: 2^23", f"2:14: axes.B.0: input {AT_MOST} 1048576; it is 8388608"),
        ("H: 2^20", f"2:14: axes.H.0: input {AT_MOST} 65536; it is 1048576"),
        ("B: [2, 0]", f"2:21: axes.B.1: input {AT_LEAST} 1; it is 0"),
        ("B: max..8", "2:14: axes.B: 'max' is not a number; write 512, 2^9, or a range 2^9..2^16"),
        ("B: max, tokens: 64", "2:1: axes: give B or tokens, not both"),
        ("padding: 1.0", "2:14: axes.padding.0: input should be less than 1; it is 1.0"),
        ("padding: [0, -0.5]", f"2:27: axes.padding.1: input {AT_LEAST} 0; it is -0.5"),
        ("padding: half", "2:14: axes.padding.0: input should be a valid number; it is 'half'"),
    ],
)
def test_an_axis_that_is_none_is_one_error_at_its_place(errors: Errors, axis: str, want: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: 8, {axis}}}\nmethods: [m]\n")
    assert line.startswith(f"x.yaml:{want}")


@pytest.mark.parametrize("key", ["name", "axes", "methods"])
def test_a_missing_key_is_named(errors: Errors, key: str) -> None:
    rest = "\n".join(line for line in GOOD.splitlines() if not line.startswith(key))
    assert errors(rest) == [f"x.yaml:1:1: {key}: this key is missing"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("axes: {H: 8}\nmethods: [m]", "1:1: axes.N is missing; write N: 2^9..2^16, or a list of lengths"),
        ("axes: {N: a..b}\nmethods: [m]", "2:8: axes.N: 'a' is not a number; write 512, 2^9, or a range 2^9..2^16"),
        ("axes: {N: [8, x]}\nmethods: [m]", "2:8: axes.N: 'x' is not a number; write 512, 2^9, or a range 2^9..2^16"),
        ("axes: {N: 8}\nmethods: []", "3:1: methods: this list is empty; write at least one"),
    ],
)
def test_axes_or_methods_that_lack_something_are_one_error_at_its_place(errors: Errors, text: str, want: str) -> None:
    assert errors(f"name: a\n{text}\n") == [f"x.yaml:{want}"]


@pytest.mark.parametrize(
    ("methods", "want"),
    [
        (
            "[{name: m, params: {chunk: []}, when: chunk < N}]",
            "3:30: methods.0.params.chunk: this list is empty; write at least ",
        ),
        ("\n  - m\n  - {name: n, parms: {}}", "5:15: methods.1.parms: unknown key; did you mean 'params'? known here: name, "),
        ("\n  - {name: n, when: N > 1}\n  - name: o\n    when: n > 1", "6:5: methods.1.when: unknown name 'n'; allowed: B, "),
        # a parameter of another method
        ("[{name: m, params: {chunk: 4}}, {name: n, when: chunk < N}]", "3:52: methods.1.when: unknown name 'chunk'"),
    ],
)
def test_a_mistake_in_a_method_is_one_error_at_its_place(errors: Errors, methods: str, want: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: 8}}\nmethods: {methods}\n")
    assert line.startswith(f"x.yaml:{want}")


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1e999"])
def test_a_number_that_is_not_finite_is_refused(errors: Errors, number: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: 8}}\nmethods: [{{name: m, params: {{eps: {number}}}}}]\n")
    assert line == f"x.yaml:3:35: '{number}' is not a finite number"


@pytest.mark.parametrize("given", ["[[1]]", "null", "{}", "[{a: 1}]"])
def test_a_parameter_that_is_no_plain_value_is_refused_once(errors: Errors, given: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: 8}}\nmethods: [{{name: m, params: {{int: {given}}}}}]\n")
    assert line.startswith("x.yaml:3:")
    assert "methods.0.params.int.0: write a number, a text, true or false; it is " in line


def test_all_errors_come_at_once_in_the_order_of_the_file_and_refused_entries_empty_no_list(errors: Errors) -> None:
    text = "name: a b\naxes:\n  N: x\n  dtype: int3\nmethods:\n  - {name: m, when: n}\n  - {nam: m}\nreplicates: 0\n"
    lines = errors(text)
    places = [tuple(map(int, line.split(":")[1:3])) for line in lines]
    assert places == sorted(places)
    keys = {line.split(": ")[1] for line in lines}
    assert keys == {"name", "axes.N", "axes.dtype.0", "methods.0.when", "methods.1.nam", "methods.1.name", "replicates"}


@pytest.mark.parametrize(
    ("text", "place"),
    [("name: [", "1:8"), ("name: a\n axes: 1\n", "2:6"), ("name: 'a", "1:9"), ("a: 1\n\tb: 2\n", "2:1"), ("a: b: c", "1:5")],
)
def test_what_is_no_yaml_says_where(errors: Errors, text: str, place: str) -> None:
    (line,) = errors(text)
    assert line.startswith(f"x.yaml:{place}: not YAML: ")


@pytest.mark.parametrize("written", ["true", "True", "FALSE"])
def test_truth_is_written_in_one_way_and_a_number_also_in_scientific_form(tmp_path: Path, written: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"name: a\naxes: {{N: 8, causal: {written}}}\nmethods: [m]\nbudget: {{seconds: 1e-3}}\n")
    suite = load(str(file)).suite
    assert (suite.axes.causal, suite.budget.seconds) == ((written.lower() == "true",), 1e-3)


@pytest.mark.parametrize("head", ["", "%YAML 1.1\n---\n"])
@pytest.mark.parametrize("written", ["yes", "on", "!!bool yes", "1"])
def test_another_word_for_truth_is_an_error_and_never_silently_false(errors: Errors, head: str, written: str) -> None:
    (line,) = errors(f"{head}name: a\naxes: {{N: 8, causal: {written}}}\nmethods: [m]\n")
    assert "true or false" in line or "valid boolean" in line


def test_a_dict_that_holds_itself_is_no_suite() -> None:
    given: dict[str, object] = {}
    given["axes"] = given
    with pytest.raises(SuiteError, match=r"lists and dicts \(Circular"):
        load(given)


@pytest.mark.parametrize(("name", "meant"), [("scalng", r"did you mean 'scaling'\? "), ("xyzzy", "")])
def test_an_unknown_suite_lists_the_shipped_and_offers_the_one_that_was_meant(name: str, meant: str) -> None:
    words = rf"^{name}: cannot read it \(No such file or directory\); {meant}suites that ship: .*quick, .*scaling"
    with pytest.raises(SuiteError, match=words):
        load(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("/dev/zero", "a device or a pipe"), ("/tmp", "Is a directory")]
    + [(name, "cannot read it") for name in ("", ".", "/", "no/such.yaml", "x" * 5000, "a\0b", "\ud800")],
)
def test_a_name_that_cannot_be_a_file_is_a_suite_error(name: str, words: str) -> None:
    with pytest.raises(SuiteError, match=words):
        load(name)
