"""Checkpoints: files from which a training is resumed bit for bit, and which keep the weights of a trained model.

They are safetensors files, which hold tensors and words but no code. They are written as a whole or not at all.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from attnbench.schema.errand import Job
from attnbench.store.files import write_durably
from attnbench.store.run_folder import checkpoint_of
from attnbench.training.loop import Curve, Progress
from attnbench.version import __version__

_EVERY = 30.0
_MODEL, _OPTIMISER = "model.", "optimiser."


def name_of(progress: Progress, job: Job) -> dict[str, str]:
    """Return what must be the same for a training to be resumed: the cell, its batch and seed, the data, and versions."""
    same = {
        "format": 1,
        "key": job.cell.key,
        "replicate": job.replicate,
        "seed": job.seed,
        "batch": job.B or job.cell.problem.B,
        "data": progress.data,
        "torch": torch.__version__,
        "attnbench": _trainer(),
    }
    return {name: str(value) for name, value in same.items()}


@cache
def _trainer() -> str:
    """Return the version and a digest of this room's sources, for a changed order of data is another training."""
    room = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(room.rglob("*.py")):
        digest.update(str(file.relative_to(room)).encode() + b"\0" + file.read_bytes() + b"\0")
    return f"{__version__} {digest.hexdigest()[:12]}"


@dataclass
class Keeper:
    """Saves a training every so many seconds, if there is a folder; a full disk costs the checkpoint, never the training."""

    job: Job
    now: Callable[[], float] = time.monotonic
    not_kept: str = field(default="", init=False)
    """Why the newest state could not be saved; empty where it was."""

    def __post_init__(self) -> None:
        self._last = self.now()

    def now_and_then(self, progress: Progress) -> None:
        """Save the training if the last time is long enough ago; not at its end, when it is first to be judged."""
        if self.now() - self._last >= _EVERY and not progress.finished:
            self.keep(progress)
            self._last = self.now()

    def keep(self, progress: Progress) -> None:
        """Save the training now, or note why it cannot be."""
        self.not_kept = ""
        if self.job.folder is None:
            return
        try:
            save(progress, self.job)
        except OSError as error:
            # the words of the system alone: a record names no place on this machine
            self.not_kept = error.strerror or type(error).__name__

    def forget(self) -> None:
        """Remove what was saved, for to go on from it would be to hide what was wrong with the training."""
        if self.job.folder is not None:
            with suppress(OSError):
                checkpoint_of(Path(self.job.folder), self.job.cell, self.job.replicate).unlink()


def save(progress: Progress, job: Job) -> Path:
    """Write all that a training needs to be resumed, and the cell, so that its model can be built again. Raises OSError."""
    assert job.folder is not None
    file = checkpoint_of(Path(job.folder), job.cell, job.replicate)
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {**name_of(progress, job), "update": str(progress.updates), "cell": job.cell.model_dump_json()}
    model, states = progress.model, progress.optimiser.state_dict()["state"]
    tensors = {
        **{f"{_MODEL}{name}": x for name, x in model.state_dict().items()},
        **{f"{_OPTIMISER}{i}.{name}": x for i, state in states.items() for name, x in state.items()},
        "random.torch": torch.get_rng_state(),
        "random.order": progress.order.get_state(),
        "seconds": torch.tensor(progress.seconds, dtype=torch.float64),
        "curve": torch.tensor(astuple(progress.curve), dtype=torch.float64),
    }
    if model.cell.device_kind == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(model.cell.device)
    # safetensors refuses two names for one tensor: each gets a copy
    copies = {name: x.detach().to("cpu", copy=True).contiguous() for name, x in tensors.items()}
    write_durably(file, to_bytes(copies, metadata=about))
    return file


def resume(begin: Callable[[], Progress], job: Job) -> tuple[Progress, str | None]:
    """Return the training as its checkpoint has it, or from the beginning, and the reason why a checkpoint was not used."""
    progress = begin()
    file = None if job.folder is None else checkpoint_of(Path(job.folder), job.cell, job.replicate)
    if file is None or not file.exists():
        return progress, None
    try:
        about, tensors = read(file)
        for name, wanted in name_of(progress, job).items():
            if about.get(name) != wanted:
                return progress, f"its {name} is {about.get(name)}, not {wanted}"
        progress.model.load_state_dict(weights(tensors))
        # the optimiser's state, by the number of the parameter
        states: dict[int, dict[str, Tensor]] = {}
        for name, x in tensors.items():
            if name.startswith(_OPTIMISER):
                number, _, key = name.removeprefix(_OPTIMISER).partition(".")
                states.setdefault(int(number), {})[key] = x
        groups = progress.optimiser.state_dict()["param_groups"]
        progress.optimiser.load_state_dict({"state": states, "param_groups": groups})
        progress.seconds = tensors["seconds"].tolist()
        progress.curve = Curve(*tensors["curve"].tolist())
        progress.order.set_state(tensors["random.order"])
        torch.set_rng_state(tensors["random.torch"])
        if progress.model.cell.device_kind == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"], progress.model.cell.device)
    except (OSError, SafetensorError, LookupError, RuntimeError, ValueError) as error:
        # a training that was restored in part is of no use
        return begin(), f"it cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    return progress, None


def read(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the words and the tensors of a checkpoint. Raises OSError and SafetensorError."""
    with safe_open(file, framework="pt") as stored:
        return dict(stored.metadata() or {}), {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118


def weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return those tensors of a checkpoint that are the model's."""
    return {name.removeprefix(_MODEL): x for name, x in tensors.items() if name.startswith(_MODEL)}
