"""What the schema of a suite says of itself, for those who write one."""

from pydantic import TypeAdapter

from attnbench.schema.model import Model
from attnbench.schema.noun import Noun
from attnbench.schema.suite import ModelAxes, Suite, TrainingAxes
from attnbench.schema.training import Training


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
