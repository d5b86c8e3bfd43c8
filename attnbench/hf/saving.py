"""Reading a swapped model that was saved by `save_pretrained`."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from attnbench.hf.refusals import CannotError
from attnbench.hf.swapping import swap


def load(folder: str | Path, **options: Any) -> PreTrainedModel:  # noqa: ANN401 - those of from_pretrained
    """Read a swapped model that `model.save_pretrained(folder)` wrote, with its methods in their places.

    `options` are those of `AutoModelForCausalLM.from_pretrained`, output_loading_info aside. Raises CannotError with that, and
    where the folder holds no swapped model.
    """
    folder = Path(folder)
    files = sorted(folder.glob("*.safetensors"))
    config = AutoConfig.from_pretrained(folder) if (folder / "config.json").is_file() else None
    plans = getattr(config, "attnbench", None)
    if not plans or not files:
        raise CannotError(f"{folder} holds no swapped model that save_pretrained wrote as safetensors")
    if options.get("output_loading_info"):
        raise CannotError("output_loading_info would have the methods' weights for weights of no use; leave it out")
    # the weights of the methods are no part of the model before it is swapped, of which there would be a warning
    told = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, **options)
    finally:
        logging.set_verbosity(told)
    # swapping states the plans anew
    for plan in plans:
        swap(model, plan.pop("method"), plan.pop("layers"), **plan.pop("params"), **plan)
    saved = {name: x for file in files for name, x in load_file(file).items() if ".swapped." in name}
    wanted = {name for name in model.state_dict() if ".swapped." in name}
    if lacking := wanted ^ saved.keys():
        raise CannotError(f"{folder}: the weights of the swapped methods do not fit; {min(lacking)} is not on both sides")
    model.load_state_dict(saved, strict=False)
    return model
