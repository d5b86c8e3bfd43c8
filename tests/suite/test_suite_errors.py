"""What a user reads who made a mistake in a suite file: file, line, column, key, and what would be right."""

import pytest

from attnbench.suite.load import SuiteError, load
from tests.suite.conftest import Errors, Load

GOOD = "name: a\naxes: {N: 8}\nmethods: [m]\n"


def test_a_good_file_loads(load_text: Load) -> None:
    suite = load_text(GOOD)
    assert (suite.name, suite.axes.N, suite.methods[0].name) == ("a", (8,), "m")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (GOOD + "replicats: 5\n", "x.yaml:4:1: replicats: unknown key; did you mean 'replicates'? known here: axes, budget, "),
        ("name: a\naxes: {N: 8, zzz: 1}\nmethods: [m]\n", "x.yaml:2:14: axes.zzz: unknown key; known here: B, D, H, "),
        ("name: a\naxes: {N: 8, dtyp: x}\nmethods: [m]\n", "x.yaml:2:14: axes.dtyp: unknown key; did you mean 'dtype'? "),
        (
            "name: a\naxes: {N: 8}\nmethods:\n  - m\n  - {name: n, parms: {}}\n",
            "x.yaml:5:15: methods.1.parms: unknown key; did you mean 'params'? known here: name, params, when",
        ),
        (
            GOOD + "on:\n  cpu:\n    axes:\n      tokns: 1\n",
            "x.yaml:7:7: on.cpu.axes.tokns: unknown key; did you mean 'tokens'? ",
        ),
        (
            GOOD + "budget: {secs: 3}\n",
            "x.yaml:4:10: budget.secs: unknown key; did you mean 'seconds'? known here: check_timeout, memory, seconds, "
            "timeout",
        ),
    ],
)
def test_an_unknown_key_is_placed_the_meant_one_offered_and_the_keys_of_that_place_listed(
    errors: Errors, text: str, want: str
) -> None:
    (line,) = errors(text)
    assert line.startswith(want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("replicates: three", "4:1: replicates: input should be a valid integer; it is 'three'"),
        ("training: {task: copy, rate: 0}", "4:24: training.rate: should be greater than 0; it is 0.0"),
        ("training: {symbols: [10, 5000]}", "4:12: training.symbols: should be less than or equal to 4096; it is 5000"),
        ("training: {late_from: -1}", "4:12: training.late_from: should be greater than or equal to 0; it is -1"),
        (
            "published: [{where: T, what: w, comparable: claim, ours: {metric: time, workload: forward, of: {method: mm}}}]",
            "4:97: published.0.ours.of.method: 'mm' is not a method of this suite; did you mean 'm'? it has m",
        ),
        ("replicates: 2.5", "4:1: replicates: input should be a valid integer; it is 2.5"),
        ("replicates: 0", "4:1: replicates: input should be greater than or equal to 1; it is 0"),
        ("seed: [1]", "4:1: seed: input should be a valid integer; it is [1]"),
        ("source: 3", "4:1: source: input should be a valid string; it is 3"),
        ("budget: 3", "4:1: budget: "),
        ("budget: {memory: 1.5}", "4:10: budget.memory: input should be less than or equal to 1; it is 1.5"),
        (
            "workloads: [forward, sideways]",
            "4:22: workloads.1: 'sideways' is not known; "
            "write one of 'forward', 'forward_backward', 'backward', 'prefill', 'verify', 'decode', 'decode_total', "
            "'fidelity', 'numerics', 'train', 'generate', 'model_prefill', 'model_decode', 'model_train' or 'model_quality'",
        ),
        ("on: {gpu: {}}", "4:6: on.gpu: 'gpu' is not known; write one of 'cpu' or 'cuda'"),
        ("device: tpu", "4:1: device: 'tpu' is not a device; write auto, cpu, cuda or cuda:1"),
        ("device: cuda:99999999999", "4:1: device: 'cuda:99999999999' is not a device; write auto, cpu, cuda or cuda:1"),
        ("budget: {timeout: 1e10}", "4:10: budget.timeout: input should be less than or equal to 1728000; it is 10000000000.0"),
        ("budget: {seconds: 1e10}", "4:10: budget.seconds: input should be less than or equal to 172800; it is 10000000000.0"),
        (
            "replicates: 1000000000000",
            "4:1: replicates: input should be less than or equal to 1000000; it is 1000000000000",
        ),
        (
            "on: {cpu: {replicates: 10000000}}",
            "4:12: on.cpu.replicates: input should be less than or equal to 1000000; it is 10000000",
        ),
        (
            "memory_replicates: 10000000",
            "4:1: memory_replicates: input should be less than or equal to 1000000; it is 10000000",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_says_what_it_is_and_what_fits(errors: Errors, text: str, want: str) -> None:
    (line,) = errors(GOOD + text + "\n")
    assert line.startswith(f"x.yaml:{want}")


@pytest.mark.parametrize(("given", "place"), [("a..b", "2:8"), ("[8, x]", "2:8"), ("2^41", "2:8")])
def test_a_length_that_is_none_is_placed(errors: Errors, given: str, place: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: {given}}}\nmethods: [m]\n")
    assert line.startswith(f"x.yaml:{place}: axes.N: ")
    assert "2^" in line


@pytest.mark.parametrize(
    ("axis", "want"),
    [
        ("B: maximum", "2:14: axes.B: 'maximum' is not a batch; write 512, 2^9, a range 2^9..2^16, or max"),
        ("B: [1, maximum]", "2:14: axes.B: 'maximum' is not a batch; write 512, 2^9, a range 2^9..2^16, or max"),
        ("B: 2^23", "2:14: axes.B.0: input should be less than or equal to 1048576; it is 8388608"),
        ("H: 2^20", "2:14: axes.H.0: input should be less than or equal to 65536; it is 1048576"),
        ("D: [8, 2^23]", "2:21: axes.D.1: input should be less than or equal to 65536; it is 8388608"),
        ("B: [2, 0]", "2:21: axes.B.1: input should be greater than or equal to 1; it is 0"),
        ("B: 2.5", "2:14: axes.B.0: input should be a valid integer; it is 2.5"),
        ("B: max..8", "2:14: axes.B: 'max' is not a number; write 512, 2^9, or a range 2^9..2^16"),
        ("B: max, tokens: 64", "2:1: axes: give B or tokens, not both"),
        ("padding: 1.0", "2:14: axes.padding.0: input should be less than 1; it is 1.0"),
        ("padding: [0, -0.5]", "2:27: axes.padding.1: input should be greater than or equal to 0; it is -0.5"),
        ("padding: half", "2:14: axes.padding.0: input should be a valid number; it is 'half'"),
    ],
)
def test_a_batch_or_padding_that_is_none_is_one_error_at_its_place(errors: Errors, axis: str, want: str) -> None:
    assert errors(f"name: a\naxes: {{N: 8, {axis}}}\nmethods: [m]\n") == [f"x.yaml:{want}"]


@pytest.mark.parametrize("key", ["name", "axes", "methods"])
def test_a_missing_key_is_named(errors: Errors, key: str) -> None:
    rest = "\n".join(line for line in GOOD.splitlines() if not line.startswith(key))
    assert errors(rest) == [f"x.yaml:1:1: {key}: this key is missing"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "name: a\naxes: {H: 8}\nmethods: [m]\n",
            "1:1: axes.N is missing; write N: 2^9..2^16, or a list of lengths",
        ),
        (
            "name: a\naxes: {N: 8}\nmethods: [m]\nreport: {baselines: [n]}\n",
            "1:1: report.baselines: 'n' is not a method of this suite, which has m",
        ),
        (
            "name: a\naxes: {N: 8}\nmethods: [{name: m, params: {chunk: []}, when: chunk < N}]\n",
            "3:30: methods.0.params.chunk: this list is empty; write at least one",
        ),
        ("name: a\naxes: {N: 8}\nmethods: []\n", "3:1: methods: this list is empty; write at least one"),
    ],
    ids=["no lengths", "a baseline of no method", "no values, and a condition on them", "no methods"],
)
def test_what_does_not_go_together_is_one_error(errors: Errors, text: str, want: str) -> None:
    assert errors(text) == [f"x.yaml:{want}"]


def test_a_key_that_stands_twice_is_placed_at_its_second_place(errors: Errors) -> None:
    assert errors(GOOD + "name: b\n") == ["x.yaml:4:1: the key 'name' is written twice"]
    assert errors("name: a\naxes: {N: 8, N: 9}\nmethods: [m]\n") == ["x.yaml:2:14: the key 'N' is written twice"]


def test_a_bad_condition_is_placed_at_its_own_method(errors: Errors) -> None:
    text = "name: a\naxes: {N: 8}\nmethods:\n  - m\n  - name: n\n    when: N > 1\n  - name: o\n    when: n > 1\n"
    (line,) = errors(text)
    assert line.startswith("x.yaml:8:5: methods.2.when: unknown name 'n'; allowed: B, D, H, M, N")


def test_a_condition_may_speak_of_its_own_parameters_only(errors: Errors, load_text: Load) -> None:
    text = "name: a\naxes: {N: 8}\nmethods: [{name: m, params: {chunk: 4}, when: chunk < N}, {name: n, when: WHEN}]\n"
    assert load_text(text.replace("WHEN", "N > 1")).methods[0].when == "chunk < N"
    (line,) = errors(text.replace("WHEN", "chunk < N"))
    assert "methods.1.when: unknown name 'chunk'" in line


@pytest.mark.parametrize("methods", ["[{nam: m}]", "[{name: m, when: n}, {name: o, when: p}]"])
def test_a_list_of_refused_entries_is_not_also_called_empty(errors: Errors, methods: str) -> None:
    assert not any("empty" in line for line in errors(f"name: a\naxes: {{N: 8}}\nmethods: {methods}\n"))


@pytest.mark.parametrize("given", ["[[1]]", "null", "{}", "[{a: 1}]"])
def test_a_parameter_that_is_no_plain_value_is_refused_once(errors: Errors, given: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: 8}}\nmethods: [{{name: m, params: {{int: {given}}}}}]\n")
    assert line.startswith("x.yaml:3:")
    assert "methods.0.params.int.0: write a number, a text, true or false; it is " in line


def test_all_errors_come_at_once_and_in_the_order_of_the_file(errors: Errors) -> None:
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
def test_truth_is_written_in_one_way(load_text: Load, written: str) -> None:
    text = f"name: a\naxes: {{N: 8, causal: {written}}}\nmethods: [m]\n"
    assert load_text(text).axes.causal == (written.lower() == "true",)


@pytest.mark.parametrize("head", ["", "%YAML 1.1\n---\n"])
@pytest.mark.parametrize("written", ["yes", "on", "!!bool yes", "1"])
def test_another_word_for_truth_is_an_error_and_never_silently_false(errors: Errors, head: str, written: str) -> None:
    (line,) = errors(f"{head}name: a\naxes: {{N: 8, causal: {written}}}\nmethods: [m]\n")
    assert "true or false" in line or "valid boolean" in line


def test_a_number_may_be_written_in_scientific_form(load_text: Load) -> None:
    assert load_text(GOOD + "budget: {seconds: 1e-3}\n").budget.seconds == 1e-3


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1e999"])
def test_a_number_that_is_not_finite_is_refused(errors: Errors, number: str) -> None:
    (line,) = errors(f"name: a\naxes: {{N: 8}}\nmethods: [{{name: m, params: {{eps: {number}}}}}]\n")
    assert line == f"x.yaml:3:35: '{number}' is not a finite number"


@pytest.mark.parametrize(("name", "meant"), [("scalng", r"did you mean 'scaling'\? "), ("xyzzy", "")])
def test_an_unknown_suite_lists_the_shipped_and_offers_the_one_that_was_meant(name: str, meant: str) -> None:
    words = rf"^{name}: cannot read it \(No such file or directory\); {meant}suites that ship: .*quick, .*scaling"
    with pytest.raises(SuiteError, match=words):
        load(name)


@pytest.mark.parametrize("name", ["", ".", "/", "no/such.yaml", "x" * 5000, "a\0b", "\ud800"])
def test_a_name_that_cannot_be_a_file_is_a_suite_error(name: str) -> None:
    with pytest.raises(SuiteError, match="cannot read it"):
        load(name)


@pytest.mark.parametrize(("name", "words"), [("/dev/zero", "a device or a pipe"), ("/tmp", "Is a directory")])
def test_a_device_without_end_and_a_folder_are_no_suites(name: str, words: str) -> None:
    with pytest.raises(SuiteError, match=words):
        load(name)
