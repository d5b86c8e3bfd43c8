"""Bad input to any command: an exit code, words that say what would be right, and nothing is measured, written or left."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Stored, Write

GOOD = "name: s\naxes: {N: 128, H: 2, D: 16}\nbudget: {seconds: 0.2}\n"
MANY = ", ".join(map(str, range(1, 1100)))
LEARNS = """
name: learns
axes: {N: [64, 128], B: 2, H: 1, D: 8, causal: true}
workloads: [train]
training: {task: copy, layers: 1, updates: 2}
methods: ["plain:Plain", "lengths:Level"]
"""
TWICE = (
    "methods: [{name: vq.gau, when: pairs > 1}]\non: {cpu: {methods: [\n  vq.gau,\n  {name: linear.full, when: pairs > 1}]}}\n"
)
HYBRID = "methods: [softmax.sdpa]\nworkloads: train\ntraining: {softmax_every: 1}\non: {cpu: {training: {updates: 1}}}\n"
RUN = "results/made/one"
SHARE = "write the number of the share and how many there are, as 3/8"


@pytest.fixture
def scene(here: Run, suite: Write, stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in a folder with a suite, one that only trains, a run, an empty folder and a file."""
    suite(GOOD + "methods: [softmax.sdpa]\n")
    stored(tmp_path / "results", "one")
    (tmp_path / "learns.yaml").write_text(LEARNS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    # the folder of temporary files may lie in a repository of somebody's
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return here


def refused(run: Run, folder: Path, code: int, *words: str) -> str:
    """What is said on the way out; nothing in the folder has changed, but for caches."""

    def there() -> set[Path]:
        return {path for path in folder.rglob("*") if path.relative_to(folder).parts[0] != "cache" and path.name != "run.lock"}

    before = there()
    done = run(*words)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    assert there() == before
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("run quick --device tpu", "--device tpu: 'tpu' is not a device; write auto, cpu, cuda or cuda:1"),
        ("run scalin", "did you mean 'scaling'?"),
        ("run quick --replicates 1000000000000", "--replicates"),
        ("run s.yaml --lanes 999", "--lanes 999: this process may use "),
        ("run s.yaml --devices cuda:0 --device cpu", "--device cpu: several devices are GPUs; leave it out"),
        ("run s.yaml --lanes 2 --devices cuda:0", "--lanes 2: lanes share the cores of a CPU"),
        ("run s.yaml --devices cpu", "--devices cpu: write cuda:0,cuda:1 or all; on a CPU, --lanes 2 shares its cores out"),
        ("run s.yaml --devices all", "--devices all: no GPU can be found"),
        ("run s.yaml --dry-run", "--dry-run goes with --on slurm"),
        ("run s.yaml --wait --on ray", "--wait goes with --on slurm"),
        ("run s.yaml --address auto --on slurm", "--address goes with --on ray"),
        ("run s.yaml --lanes 2 --on ray", "--lanes goes with a run on this machine"),
        ("run s.yaml --no-wait --on ray", "--no-wait goes with a run on this machine"),
        ("run s.yaml --shard 1/2 --on slurm", "--shard goes with a run on this machine or --on ray"),
        ("run s.yaml --on kubernetes", "--on kubernetes: there are: ray, slurm"),
        *((f"run s.yaml --shard={share}", f"--shard {share}: {SHARE}") for share in ("0/2", "3/2", "x", "1/", "-1/2", "1/2/3")),
        ("run s.yaml --impl nobody:Knows", "error: nobody:Knows: there is no module 'nobody', here or installed"),
        ("run s.yaml --impl import_raises:Method", "error: import_raises:Method: "),
        ("run s.yaml --methods nobody:Knows", "error: nobody:Knows: there is no module 'nobody', here or installed"),
        ("run s.yaml --methods lsh.reformer(rnds=8)", "--methods lsh.reformer(rnds=8): the method has no such parameter; did"),
        ("run s.yaml --methods softmax.sdpa(x=1", "--methods softmax.sdpa(x=1: its bracket is not closed"),
        ("run s.yaml --methods softmax.sdpa(x=nan)", "--methods x=nan: it is no finite number"),
        ("run s.yaml --methods=", "--methods : no method is named"),
        ("plan s.yaml --N=", "--N : '' is not a number"),
        ("run s.yaml --impl absent.py:Mine", "there is no file absent.py"),
        ("run quick --impl \udcff.py:Mine", "write it as module:Class or path/to/file.py:Class"),
        ("methods --impl nobody:Knows", "nobody:Knows: there is no module 'nobody', here or installed"),
        ("methods linear.fast*r", "error: PATTERN linear.fast*r: no method"),
        ("suites copy quik", "error: NAME quik: did you mean 'quick'?"),
        # check
        ("check softmax.spda", "no method 'softmax.spda'; did you mean 'softmax.sdpa'"),
        ("check faulty:Unfinished", "faulty:Unfinished is not finished: it has no paper, no reference"),
        ("check faulty:NeedsAPackage", "pip install 'a-package-that-nobody-has>=2'"),
        ("check import_raises:Method", "RuntimeError: cannot be imported today (import_raises.py:"),
        ("check plain:Plain+packed --param chunk=3", "--param chunk: the method has no such parameter"),
        ("check plain:Plain --param chunk", "--param chunk: write it as name=value"),
        ("check plain:Plain --dtype half", "--dtype half: 'half' is not known; write one of 'float64', 'float32'"),
        # show
        ("show linear.full --causal", "linear.full cannot be shown: it has no causal form: every query sees every key;"),
        ("show vq.gau", "vq.gau cannot be shown: its output sums no values by one weight for each query and key"),
        ("show lsh.reformer_pytorch --N 16", "cannot be shown: N=16 must be a multiple of 2 * bucket_size = 128"),
        ("show linear.chunked --param chnk=3", "--param chnk: the method has no such parameter; did you mean 'chunk'?"),
        ("show softmax.naive --N 513", "--N 513: more than a picture can show; at most 512"),
        ("show softmax.naive --heads 17", "--heads 17: more than a picture can show; at most 16"),
        ("show math:nothing", "math has no 'nothing'; it has no attention: subclass attnbench.api.Attention"),
        ("show math:pi", "math:pi is not an attention: subclass attnbench.api.Attention"),
        ("show import_needs:Method", "import_needs:Method cannot be imported"),
        ("show faulty:NeedsAPackage", "pip install 'a-package-that-nobody-has>=2'"),
        ("show no.such.method --out a.pdf", "a picture is .png or .svg"),
        ("show linear.chunked --param chunk=x", "chunk='x'"),
        # searches
        ("maxlen softmax.spda", "softmax.spda: neither a suite nor a method; did you mean 'softmax.sdpa'"),
        ("maxlen lsh.reformer(rnds=8)", "--methods lsh.reformer(rnds=8): the method has no such parameter"),
        ("maxlen softmax.sdpa+packed quick scaling", "error: quick, scaling: at most one suite"),
        ("maxlen quick --method linear.chunky", "--method linear.chunky: no such method; did you mean 'linear.chunked'"),
        ("maxlen quick --out x.png", "--out x.png: the name must end in one of .md, .tex, .csv"),
        ("maxlen quick --method softmax.sdpa --limit 256", "a search begins at N = 512"),
        (f"maxlen {RUN} --limit 2^10 --method vq.full --memory 8GiB", "leave out --method, --memory, --limit"),
        (f"maxlen {RUN} --batch --device cpu --impl plain:Plain", "leave out --batch, --impl, --device"),
        (f"maxlen {RUN}", f"{RUN} holds no search for lengths; to begin one: attnbench maxlen SUITE"),
        ("maxlen learns.yaml", "what is learnt has the length of its task"),
        ("crossover learns.yaml --of plain:Plain --over lengths:Level --measure", "this one only trains"),
        (f"crossover {RUN} --of linear.chunky", "--of linear.chunky: not among the methods; did you mean 'linear.chunked'"),
        (f"crossover {RUN} --of softmax.sdpa --over softmax.sdpa", "both name softmax.sdpa"),
        (f"crossover {RUN} --of softmax.sdpa", "the strongest exact softmax; name one: --over linear.chunked"),
        (f"crossover {RUN} --metric tiem", "it has: time, tokens, throughput"),
        (f"crossover {RUN} --metric state", "--metric state: no cell of the run has that"),
        (f"crossover {RUN} --replicates 7", "--replicates 7: it says how a suite is measured; a run folder is only read"),
        (f"crossover {RUN} --max-points 2 --impl plain:Plain", "--max-points 2: it says how a suite is measured"),
        (f"crossover {RUN} --fresh", "--fresh True: it says how a suite is measured"),
        (f"crossover {RUN} --out c.xls", "--out c.xls: the name must end in one of .md"),
        ("crossover quick", "attnbench crossover quick --of METHOD --over METHOD --measure"),
        ("crossover quick --measure --of linear.chunked", "--measure needs both methods"),
        ("crossover quick --measure --of linear.chunked --over softmax.sdpa --metric tiem", "--metric tiem"),
        ("crossover results --measure --of a --over b", "--measure takes a suite; results is a folder"),
        # selfcheck
        ("selfcheck --method softmax.spda", "did you mean 'softmax.sdpa'"),
        ("selfcheck --method linear.chunked", "--method linear.chunked: unsupported: it is causal only"),
        ("selfcheck --method import_raises:Method", "--method import_raises:Method: error:"),
        ("selfcheck --seconds 1e10", "--seconds 10000000000.0: input should be less than or equal to 172800"),
        ("selfcheck --verdicts 100000 --replicates 1000", "that is 200,000,000 processes; at most 1,000,000"),
        ("selfcheck --inject=-3%", "--inject -3%: write a share"),
        ("selfcheck --resume x --method m --N 64 --causal", "leave out --method, --N, --causal"),
        # judging
        ("compare", "name two runs, or one"),
        ("compare a b --out x.docx", "must end in one of .md, .tex"),
        ("compare a b --margin=-3%", "write a share, for example 8% or 0.08"),
        ("compare --suite quick", "name both, a suite to measure and a commit"),
        ("compare a --live HEAD --suite quick", "takes neither runs nor --baseline"),
        ("compare a b --baseline x", "with two runs the first is the baseline"),
        (f"compare {RUN} {RUN} --metric speed", "--metric speed: no cell of the runs has that; they have: time"),
        (f"compare {RUN} {RUN} --replicates 7", "--replicates 7: it says how a suite is measured; a run folder is only read"),
        (f"compare {RUN} --results x", "--results x: it says how a suite is measured"),
        (f"gate --stored {RUN} {RUN} --max-replicates 7", "--max-replicates 7: it says how a suite is measured"),
        (f"gate --stored {RUN} {RUN} --no-wait", "--no-wait True: it says how a suite is measured"),
        ("advise --N 64 --workload prefill --decode", "--workload prefill: --decode is --workload decode; give one of them"),
        ("gate", "name a suite and --base GIT_REF"),
        ("gate quick --base HEAD --stored a b", "or --stored BASE_RUN NEW_RUN"),
        ("gate quick --base HEAD", "not a git repository"),
        # histories and pages
        ("trend nowhere", "nowhere is not a folder"),
        ("trend empty", "empty holds no run; a history is a folder of <suite>/<run id>/ folders"),
        ("trend results --suite maed", "did you mean 'made'?"),
        ("trend results --metric tiem", "--metric tiem: did you mean 'time'? there are: "),
        ("trend results --since yesterday", "--since yesterday: write a date as 2026-01-31"),
        ("trend results --png trend.jpg", "--png trend.jpg: a picture is .png, .svg or .pdf"),
        (f"trend results --html {RUN}/run.json/page.html", "run.json is no folder"),
        ("trend results --fail-on anything", "--fail-on anything: write --fail-on regression"),
        ("history list nonsense://x", "nonsense:// is no place for a history"),
        ("published nowhere", "nowhere: no such folder; name run folders, or a folder of them, as results"),
        ("published empty", "empty holds no run that can be read; name run folders, or a folder of them, as results"),
        ("published --out page.pdf", "--out page.pdf: the name must end in one of .md"),
        ("published --out empty/../file/x.md", "--out empty/../file/x.md: "),
        ("report nothing --out page.pdf", "its name must end in .html"),
        # what is no run
        ("run --resume empty", "empty is not a run folder"),
        ("history add empty --to kept", "empty is not a run folder"),
        (
            f"record {RUN} --text x --out x.safetensors",
            "--text x: a model of transformers reads it; one of a run reads its own",
        ),
        ("selfcheck --resume empty", "empty is not the folder of a selfcheck"),
        # figures
        (f"plot {RUN} --kind scalling", "--kind scalling: did you mean 'scaling'? there are: scaling, "),
        (f"plot {RUN} --kind decode", "--kind decode: the run decodes nothing"),
        (f"plot {RUN} --style poster", "--style poster: there are: paper, talk, web"),
        (f"plot {RUN} --width tripple", "--width tripple: there are: single, double"),
        (f"plot {RUN} --style talk --width single", "--width single: a slide has one size"),
        (f"plot {RUN} --height 99in", "--height 99in: a figure is 1.5 to 40 inches"),
        (f"plot {RUN} --label softmax.sdpa", "--label softmax.sdpa: write METHOD=NAME"),
        (f"plot {RUN} --label softmax.spda=Flash", "--label softmax.spda: did you mean 'softmax.sdpa'?"),
        (f"plot {RUN} --format pdf,eps", "--format eps: there are: pdf, svg, png, pgf"),
        (f"plot {RUN} --format=", "--format '': there are: pdf"),
        (f"plot {RUN} --workload forwards", "--workload forwards: did you mean 'forward'?"),
        (f"plot {RUN} --workload decode", "--workload decode: the run has forward"),
        (f"plot {RUN} --methods linear.chunky", "--methods linear.chunky: not among the methods; did you mean"),
    ],
)
def test_bad_words_are_exit_code_2_and_said_with_what_would_be_right(words: str, says: str, scene: Run, tmp_path: Path) -> None:
    assert says in refused(scene, tmp_path, 2, *words.split())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": "attnbench selfcheck"}, f"it is a selfcheck, and goes on with: attnbench selfcheck --resume {RUN}"),
        ({"command": "attnbench maxlen quick"}, "it is a search of attnbench maxlen, which leaves no times"),
        ({"interleaved": "x"}, "it is one side of a comparison, which was measured in turns with the other"),
    ],
)
def test_what_is_no_run_does_not_go_on_as_one(changes: dict[str, str], says: str, scene: Run, tmp_path: Path) -> None:
    file = tmp_path / RUN / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    file.with_name("records.jsonl").unlink()
    assert f"{RUN} does not go on as a run: {says}" in refused(scene, tmp_path, 2, "run", "--resume", RUN)
    assert f"{RUN} is not merged: {says}" in refused(scene, tmp_path, 2, "merge", RUN)
    assert f"4 of 4 cells not run; {says}" in refused(scene, tmp_path, 2, "history", "add", RUN, "--to", "kept")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("run", "methods:\n  - softmax.naive\n  - softmax.spda\n", ["s.yaml:6:5: methods.1.name: no method 'softmax.spda'"]),
        ("plan", "methods:\n  - softmax.sdpa\n  - plain:Plan\n", ["s.yaml:6:5: methods.1.name: plain has no 'Plan'; did you"]),
        ("run", "methods:\n  - {name: linear.chunked, params: {chnk: 3}}\n", ["s.yaml:5:", "did you mean 'chunk'"]),
        ("plan", "NN: 3\nmethods: []\n", ["s.yaml:4:1:", "s.yaml:5:"]),
        ("plan", "methods: [softmax.sdpa]\non: {cpu: {axes: {kv_heads: 3}}}\n", ["s.yaml:5:12: on.cpu.axes: kv_heads=3 must"]),
        ("run", TWICE, ["s.yaml:7:23: on.cpu.methods.1.when: 'pairs > 1' compares None with 1"]),
        ("plan", HYBRID, ["s.yaml:6:12: training.softmax_every: with softmax_every=1"]),
        ("run", f"methods: [{{name: linear.chunked, params: {{chunk: [{MANY}]}}}}]\n", ["add --yes to measure them all"]),
        ("run", "methods: [softmax.sdpa, softmax.naive]\nreplicates: 600000\n", ["suite 's' has 2 cells x 600,000 replicates"]),
    ],
    ids=["method", "class", "parameter", "several", "override", "when", "base", "cells", "processes"],
)
def test_errors_of_a_suite_have_places(name: str, text: str, says: list[str], here: Run, suite: Write, tmp_path: Path) -> None:
    suite(GOOD + text)
    said = refused(here, tmp_path, 2, name, "s.yaml")
    assert [each for each in says if each not in said] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("run s.yaml --results file", "cannot create file"),
        ("run s.yaml --devices cuda:0,cuda:1", "cannot be used"),
        ("run s.yaml --device cuda:77", "device 'cuda:77' cannot be used: torch "),
        ("site results file/site", "cannot write file/site: Not a directory"),
    ],
)
def test_a_folder_or_device_that_will_not_do_is_exit_code_1(words: str, says: str, scene: Run, tmp_path: Path) -> None:
    assert says in refused(scene, tmp_path, 1, *words.split())
