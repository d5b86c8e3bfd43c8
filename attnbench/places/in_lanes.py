"""Lanes that measure at the same time, each in a place of its own."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from queue import SimpleQueue

from attnbench.places.place import Made, Place, Told, carry_out
from attnbench.schedule.rounds import Rounds
from attnbench.schedule.steps import Schedule
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.errors import AttnbenchError
from attnbench.schema.record import Record


class NoPlaceError(AttnbenchError):
    """Places were lost, and no other is like them; what was measured is kept."""


def carry_out_in_lanes(shared: Rounds, places: Sequence[Place], begins: Told = lambda *_: None) -> Made:
    """Do the jobs of each lane in the place of its number, all lanes at the same time; give each record with its lane.

    The caller stores it before it asks for the next. Raises NoPlaceError where places were lost.
    """
    if len(places) == 1:
        with closing(carry_out(shared.schedule(), *places, begins=begins)) as made:
            for each in made:
                yield each
                if places[0].lost:
                    raise NoPlaceError("no place is left to measure the rest of the run")
        return
    # closed in reverse: threads wait until what they do is cut, and then the places are left
    with ExitStack() as opened, ThreadPoolExecutor(len(places)) as threads:
        for place in places:
            opened.enter_context(place)
        lanes = _Lanes(shared, places, threads, begins)
        try:
            for lane in range(len(places)):
                lanes.go_on(lane)
            yield from lanes.records()
        finally:
            for place in places:
                place.cut()
    if left := len(shared.unfinished):
        raise NoPlaceError(f"no place is left to measure {left} of the run's bundles")


class _Lanes:
    """The schedules of lanes are asked by one thread only, while others wait for their places.

    A job that two lanes of like devices need, such as a check of a method, is done once, and both are told.
    """

    def __init__(self, shared: Rounds, places: Sequence[Place], threads: ThreadPoolExecutor, begins: Told) -> None:
        self._shared, self._places, self._threads, self._begins = shared, places, threads, begins
        self._schedules: list[Schedule] = [shared.schedule(lane) for lane in range(len(places))]
        self._doing: dict[Future[Record], tuple[Job, list[int]]] = {}
        self._done = SimpleQueue[Future[Record]]()

    def go_on(self, lane: int, record: Record | None = None) -> None:
        """Begin a lane, or send it the record of its last job; and start the job that it wants next, if there is one."""
        schedule, place = self._schedules[lane], self._places[lane]
        try:
            step = next(schedule) if record is None else schedule.send(record)
        except StopIteration:
            return
        if place.lost:
            schedule.close()
            return
        for job, lanes in self._doing.values():
            if _what(job) == _what(step.job) and self._shared.alike(lane, lanes[0]):
                lanes.append(lane)
                return
        if step.settled is None:
            self._begins(lane, step.job)
        future = self._threads.submit(place.do, step)
        self._doing[future] = (step.job, [lane])
        future.add_done_callback(self._done.put)

    def records(self) -> Made:
        """Give records until no lane wants anything."""
        while self._doing:
            future = self._done.get()
            record, (_, waiting) = future.result(), self._doing.pop(future)
            yield waiting[0], record
            for lane in waiting:
                self.go_on(lane, record)
            if self._places[waiting[0]].lost:
                self._share_anew(waiting[0])

    def _share_anew(self, lane: int) -> None:
        """Give what a lost lane had taken to those whose devices are like its own, and wake them where they had finished."""
        others = [n for n, place in enumerate(self._places) if self._shared.alike(lane, n) and not place.lost]
        self._shared.give_back(lane, others)
        for other in set(others).difference(*(lanes for _, lanes in self._doing.values())):
            self._schedules[other] = self._shared.schedule(other)
            self.go_on(other)


def _what(job: Job) -> tuple[Cell, Pass, int, int, int | None]:
    """Return what a job does, whatever its limits are on a device."""
    return job.cell, job.phase, job.replicate, job.attempt, job.B
