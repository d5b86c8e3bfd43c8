"""What the schema of a suite says of itself, for those who write one, and what others printed, as a suite says it."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from attnbench.schema.model import Model
from attnbench.schema.noun import Noun
from attnbench.schema.published import Published
from attnbench.schema.suite import ModelAxes, Suite, TrainingAxes
from attnbench.schema.training import Training

OURS = {"metric": "throughput", "workload": "generate", "of": {"method": "a"}}


def published(**fields: Any) -> Published:
    return Published.model_validate({"where": "Table 1", "what": "images/s", "comparable": "ratio", **fields}, strict=False)


def test_every_key_of_a_suite_says_what_it_means() -> None:
    schema = TypeAdapter(Suite).json_schema(mode="validation")
    parts = {"Suite": schema, **schema["$defs"]}
    once: dict[str, type[Noun]] = {TrainingAxes.__name__: Training, ModelAxes.__name__: Model}
    silent = [
        f"{title}.{key}"
        for title, part in parts.items()
        for key, field in part.get("properties", {}).items()
        # a suite may have several of what one training or model has once, and means the same
        if not (field.get("description") or (title in once and once[title].model_fields[key].description))
    ]
    assert not silent


def test_a_row_says_how_it_is_read_off_a_run_or_what_it_would_take() -> None:
    assert published(ours=OURS).says == "n/a"
    # of any parameter
    assert published(ours={**OURS, "of": {"method": "a", "when": "N == 512 and k == 128"}}).ours is not None
    assert published(needs="a week on eight GPUs").ours is None
    with pytest.raises(ValidationError, match="say by `ours` how it is read off a run, or by `needs` what it would take"):
        published()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ours": {**OURS, "over": {"method": "b"}, "less": {"method": "c"}}}, "give `over` or `less`, not both"),
        ({"ours": OURS, "reproduced": {}}, "give `at_least`, `at_most` or both"),
        ({"ours": OURS, "reproduced": {"at_least": 2.0, "at_most": 1.0}}, "`at_least` is above `at_most`"),
        ({"ours": {**OURS, "metric": "speed"}}, "'tokens', 'throughput'"),
        ({"ours": {**OURS, "of": {"method": "a", "when": "print(1)"}}}, "is not allowed"),
    ],
    ids=["two comparisons", "no bound", "nothing between the bounds", "nothing that can be read", "no condition"],
)
def test_what_cannot_be_compared_is_refused_in_words(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        published(**fields)


def test_a_bound_that_is_the_printed_number_needs_one() -> None:
    axes = {"down": {"N": [512]}, "across": {"k": [128, 256]}, "numbers": [[1.5, None]]}
    assert published(ours=OURS, reproduced={"at_least": "printed"}, grid=axes).reproduced is not None
    band = published(ours=OURS, reproduced={"at_least": "printed", "at_most": 9}, number=3).reproduced
    assert band is not None
    assert (band.ends(3), band.ends(1.5)) == ((3, 9), (1.5, 9))
    with pytest.raises(ValidationError, match="a bound `printed` needs the printed `number`, or a `grid`"):
        published(ours=OURS, reproduced={"at_least": "printed"})


def test_a_grid_has_a_number_or_nothing_at_every_crossing() -> None:
    axes = {"down": {"N": [512, 1024]}, "across": {"k": [128, 256, 512]}}
    assert published(ours=OURS, grid={**axes, "numbers": [[1.5, 1.3, None], [1.7, 1.6, 1.3]]}).grid is not None
    with pytest.raises(ValidationError, match="numbers must be 2 rows of 3"):
        published(ours=OURS, grid={**axes, "numbers": [[1.5, 1.3]]})
    with pytest.raises(ValidationError, match="down and across are both 'k'"):
        published(ours=OURS, grid={"down": {"k": [1]}, "across": {"k": [2]}, "numbers": [[1.5]]})
