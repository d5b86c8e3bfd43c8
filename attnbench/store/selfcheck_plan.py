"""plan.json in the run folder of a selfcheck: which process each replicate number of its records stands for."""

from pathlib import Path

from pydantic import ValidationError

from attnbench.schema.selfcheck import Selfcheck
from attnbench.store.files import open_to_read, write_durably
from attnbench.store.run_folder import StoreError

_PLAN = "plan.json"


def keep(folder: Path, plan: Selfcheck) -> None:
    """Write it beside the records; raises StoreError."""
    try:
        write_durably(folder / _PLAN, plan.model_dump_json(indent=1).encode())
    except OSError as error:
        raise StoreError(f"cannot write {folder / _PLAN}: {error.strerror}") from error


def recall(folder: Path) -> Selfcheck:
    """What was planned there; raises StoreError where it is no folder of a selfcheck."""
    file = folder / _PLAN
    try:
        with open_to_read(file) as data:
            return Selfcheck.model_validate_json(data.read())
    except OSError as error:
        raise StoreError(f"{folder} is not the folder of a selfcheck: {_PLAN}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(f"{file} cannot be read: {f'{where}: ' if where else ''}{first['msg']}") from error
