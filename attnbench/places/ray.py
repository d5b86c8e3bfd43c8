"""Ray: a lane for each GPU of a cluster, or for each node, or for each unit of a resource that its nodes offer.

An actor does the jobs of a lane as a local place does them on its node; the driver alone writes records. What goes to and fro
is JSON, as between a runner and its workers.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnbench.places.lane import Lane
from attnbench.places.place import INTERRUPTED, record_of
from attnbench.places.station import LocalStation
from attnbench.schedule.steps import Server, Step
from attnbench.schema.errand import ANSWER, ERRAND, Answer, Errand, Job, Surroundings, Survey
from attnbench.schema.errors import AttnbenchError
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record, parse
from attnbench.schema.run import RunInfo
from attnbench.store.scratch import scratch

_READY = 180.0
"""Seconds in which an actor has to begin."""
_LEFT_OUT = [".git", ".venv", "venv", "results", "__pycache__", "records*.jsonl*"]
"""What the nodes need not have of the folder that a run is started in."""


class RayError(AttnbenchError):
    """Ray is not installed, or the cluster cannot be reached, or has no such resource; the message says which."""


class Hand:
    """The actor: the station of a node, with the place for the one run that is measured."""

    def __init__(self, command: str, threads: str | None, *, fresh: bool) -> None:
        # Ray sets it to the CPUs that an actor asks for, which is none
        os.environ.pop("OMP_NUM_THREADS", None)
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads
        self._station = LocalStation(fresh=fresh, lane=Lane(command=command))

    def environment(self) -> Facts:
        """Return what numbers depend on here, besides the device."""
        return self._station.environment()

    def ask(self, question: str, timeout: float) -> tuple[str, float]:
        """Return an answer; roofs are measured while nobody else measures."""
        errand = ERRAND.validate_json(question)
        with ExitStack() as held:
            if isinstance(errand, Survey) and errand.ceilings:
                here, _ = self._station.ask(errand.model_copy(update={"ceilings": ()}), timeout)
                if isinstance(here, Surroundings):
                    held.enter_context(self._station.held(here))
            answer, seconds = self._station.ask(errand, timeout)
        return answer.model_dump_json(), seconds

    def begin(self, info: str) -> str:
        """Make the place for a run, and name its device."""
        self._place = self._station.place(RunInfo.model_validate_json(info))
        return self._place.device

    def do(self, job: str, server: tuple[tuple[int, ...], int]) -> str:
        """Do a job."""
        return self._place.do(Step(Job.model_validate_json(job), Server(*server))).line()


@dataclass
class RayStation(AbstractContextManager["RayStation"]):
    """The device of an actor."""

    actor: Any
    host: str
    ray: Any

    def __exit__(self, *_: object) -> None:
        self.ray.kill(self.actor)

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return the answer to an errand that is done there, and the seconds that its process lived."""
        try:
            answer, seconds = self._told("ask", errand.model_dump_json(), timeout, within=2 * timeout + _READY)
        except RayError as error:
            return Failed(status=Status.CRASHED, reason=str(error)), 0.0
        return ANSWER.validate_json(answer), seconds

    def held(self, _: Surroundings) -> AbstractContextManager[None]:
        """Hold nothing: the actor waits for its device when it measures."""
        return nullcontext()

    def environment(self) -> Facts:
        """Return what numbers depend on there. Raises RayError."""
        facts: Facts = self._told("environment")
        return facts

    def place(self, info: RunInfo, _: Path | None = None) -> "RayPlace":
        """Return the place for the jobs of a run; its trainings keep no checkpoints, for nodes share no folder."""
        return RayPlace(info, self.actor, self.host, self._told("begin", info.model_dump_json()), self.ray)

    def _told(self, method: str, *arguments: object, within: float = _READY) -> Any:  # noqa: ANN401 - whatever it gives
        """Return what a method of the actor gives. Raises RayError where it does not come within so many seconds."""
        try:
            return self.ray.get(getattr(self.actor, method).remote(*arguments), timeout=within)
        except (self.ray.exceptions.RayError, TimeoutError) as error:
            raise RayError(f"{self.host} does not answer: {_first(error)}") from None


@dataclass
class RayPlace(AbstractContextManager["RayPlace"]):
    """A place where an actor does the jobs of a lane."""

    info: RunInfo
    actor: Any
    host: str
    device: str
    ray: Any = field(repr=False)
    lost: bool = field(default=False, init=False)
    _in_flight: Job | None = field(default=None, init=False)
    _is_cut: bool = field(default=False, init=False)

    def __exit__(self, *_: object) -> None: ...

    def do(self, step: Step) -> Record:
        """Do a job; if its actor or node is lost meanwhile, that is a try of it which failed."""
        if step.settled is not None:
            return record_of(self.info, self, step.job, step.settled, host=self.host)
        self._in_flight, begin = step.job, time.monotonic()
        try:
            record = parse(self.ray.get(self.actor.do.remote(step.job.model_dump_json(), tuple(step.server))))
        except self.ray.exceptions.RayError as error:
            self.lost = True
            why = Failed(status=Status.CRASHED, reason=f"the actor on {self.host} was lost: {_first(error)}")
            record = record_of(self.info, self, step.job, why, host=self.host, seconds=time.monotonic() - begin)
        if not self._is_cut:
            self._in_flight = None
        return record

    def cut(self) -> None:
        """End what is being done, as another thread waits for it."""
        self._is_cut = True
        self.ray.kill(self.actor)

    def interrupted(self) -> Record | None:
        """Return the record of the job that an interruption ended, if there was one."""
        return record_of(self.info, self, self._in_flight, INTERRUPTED, host=self.host) if self._in_flight else None


@contextmanager
def stations(address: str | None, resource: str, command: str, *, cuda: bool, fresh: bool) -> Iterator[list[RayStation]]:
    """Reach a cluster, or start one on this machine, and give a station for each unit of a resource, or for each node.

    `resource` is GPU, or the name of one of the cluster's own; empty for GPU where `cuda`, else for a lane a node. The code of
    this project and of the folder it is started in goes to the nodes. Raises RayError.
    """
    try:
        import ray
    except ImportError:
        raise RayError("Ray is not installed: pip install 'attnbench[ray]'") from None
    with scratch() as stage:
        try:
            # without an address Ray would join whatever cluster it finds
            ray.init(address=address or "local", runtime_env=_code(stage), log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise RayError(f"no Ray cluster can be reached at {address or 'this machine'}: {_first(error)}") from None
    try:
        resource = resource or ("GPU" if cuda else "")
        nodes = [node for node in ray.nodes() if node["Alive"]]
        actor = ray.remote(Hand)
        found = []
        for node in nodes:
            units = int(node["Resources"].get(resource, 0)) if resource else 1
            there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            # Ray hides all GPUs from an actor that asks for none
            gpus = int(resource == "GPU" or (cuda and node["Resources"].get("GPU", 0) >= units))
            own = {resource: 1} if resource not in {"", "GPU"} else None
            options = {"num_cpus": 0, "num_gpus": gpus, "resources": own, "max_restarts": 0, "max_task_retries": 0}
            actors = actor.options(**options, scheduling_strategy=there)
            for _ in range(units):
                made = actors.remote(command, os.environ.get("OMP_NUM_THREADS"), fresh=fresh)
                found.append(RayStation(made, str(node["NodeManagerHostname"]), ray))
        if not found:
            names = sorted({name for node in nodes for name in node["Resources"]})
            raise RayError(f"the cluster has no {resource}; its resources are {', '.join(names)}")
        yield found
    finally:
        ray.shutdown()


def _code(stage: Path) -> dict[str, Any]:
    """Return what the nodes need: this project with its entry points, copied to `stage`, and the folder with one's own."""
    distribution = importlib.metadata.distribution("attnbench")
    # in a checkout the folder of the implementations has another name than their package
    packages = {"attnbench": Path(__file__).parents[1]}
    if found := importlib.util.find_spec("attnbench_impls"):
        packages["attnbench_impls"] = Path(str(found.origin)).parent
    # the folder that holds the entry points
    entries = next(file for file in distribution.files or () if file.name == "entry_points.txt")
    installed = Path(str(distribution.locate_file(entries))).parent
    packages[installed.name] = installed
    for name, folder in packages.items():
        shutil.copytree(folder, stage / name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    return {"working_dir": str(Path.cwd()), "py_modules": [str(stage / name) for name in packages], "excludes": _LEFT_OUT}


def _first(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
