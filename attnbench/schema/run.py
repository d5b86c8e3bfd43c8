"""RunInfo: the content of run.json, which is everything about a run except its records."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field, field_validator

from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Surroundings
from attnbench.schema.noun import Facts, Noun
from attnbench.schema.suite import Suite

RUN_VERSION = 1


class Elsewhere(Noun):
    """A machine on which a part of a run was measured, unlike the rest."""

    environment: Facts
    surroundings: Surroundings


def new_id(now: datetime) -> str:
    """Name a run that begins now: the names of runs sort by time, and two of one second differ."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class RunInfo(Noun):
    """The resolved suite, the command, where it ran, and the cells that were planned."""

    schema_version: int = RUN_VERSION
    id: str
    interleaved: str = Field(
        default="", description="runs with the same word here were measured in turns, replicate by replicate"
    )
    shard: str = Field(default="", description="the share of the suite's bundles that was measured, as 3/8")
    suite: Suite
    command: str
    started: str
    environment: Facts = Field(description="what numbers depend on: versions, processor, device")
    environment_digest: str
    elsewhere: dict[str, Elsewhere] = Field(default_factory=dict, description="by the digest of its environment")
    git: Facts = Field(default_factory=dict)
    surroundings: Surroundings
    methods: dict[str, Description]
    cells: tuple[Cell, ...]
    costs: dict[str, Cost] = Field(default_factory=dict, description="by cell key; absent where the method has none")

    @field_validator("schema_version")
    @classmethod
    def _is_known(cls, value: int) -> int:
        if value != RUN_VERSION:
            raise ValueError(f"written by another attnbench (schema {value}, this one reads {RUN_VERSION})")
        return value

    def on(self, digest: str) -> "RunInfo":
        """Return the run as its records of that environment were measured: with that environment and those surroundings."""
        other = self.elsewhere.get(digest)
        if other is None:
            return self
        return self.model_copy(update={"environment_digest": digest, **dict(other)})

    @property
    def is_base(self) -> bool:
        """Say whether this is the older side of a comparison, which was measured again and is no point of a history."""
        return bool(self.interleaved) and self.id == f"{self.interleaved}-base"

    def is_softmax(self, method: str) -> bool:
        """Say whether a method computes softmax attention itself; of one that was not asked its name says so."""
        said = self.methods.get(method)
        return method.startswith("softmax.") if said is None or said.is_softmax is None else said.is_softmax

    @property
    def machine(self) -> str:
        """Name the hardware that makes numbers comparable: GPU, or processor and vectors, cores, threads, lanes; no software.

        A virtual machine may hide which processor it has, but not that it has wider vectors than another of that name.
        """
        facts = self.environment | self.surroundings.facts
        there = [(facts[name], name) for name in ("cores", "threads", "lanes") if facts.get(name) is not None]
        counts = [f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in there]
        names = ("gpu", "processor") if facts.get("gpu") else ("processor", "cpu_capability")
        known = [str(facts[name]) for name in names if facts.get(name)]
        return ", ".join([*known, *counts]) or self.surroundings.device

    def differences(self, other: "RunInfo") -> list[str]:
        """List in words the differences in suite, method versions and environment that keep two runs from being one.

        A method that could not be asked when this run began has no version that could have changed.
        """
        found = _differ("suite", self.suite.model_dump(mode="json"), other.suite.model_dump(mode="json"))
        versions = [{name: d.version for name, d in run.methods.items() if name in self.methods} for run in (self, other)]
        return found + _differ("method", *versions) + _differ("environment", self.environment, other.environment)


def joined(whole: RunInfo, parts: Sequence[RunInfo]) -> RunInfo:
    """Return a run of which others are parts, with what is known from them: environments, methods, costs.

    Where the whole was measured nowhere, for it was only handed to others, its environment is that of the first part.
    """
    for part in parts:
        if not whole.environment_digest:
            names = ("environment", "environment_digest", "surroundings", "git")
            whole = whole.model_copy(update={name: getattr(part, name) for name in names})
        found = dict(part.elsewhere)
        found[part.environment_digest] = Elsewhere(environment=part.environment, surroundings=part.surroundings)
        found.pop(whole.environment_digest, None)
        cells = tuple({cell.key: cell for cell in (*whole.cells, *part.cells)}.values())
        # of a method that could not be asked when the whole began, the part has the answer
        answers = {"methods": part.methods | whole.methods, "costs": part.costs | whole.costs}
        whole = whole.model_copy(update={**answers, "elsewhere": whole.elsewhere | found, "cells": cells})
    return whole


def devices(run: RunInfo) -> dict[str, str]:
    """Name each device by the digest of its environment, the run's own first; nothing where all are alike."""
    digests = [run.environment_digest, *run.elsewhere] if run.elsewhere else []
    names = {digest: run.on(digest).machine for digest in digests}
    same = [name for name in names.values() if list(names.values()).count(name) > 1]
    # of one hardware and unlike software
    return {digest: f"{name}, environment {digest}" if name in same else name for digest, name in names.items()}


def _differ(where: str, old: Any, new: Any) -> list[str]:  # noqa: ANN401 - two JSON values
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [line for key in keys for line in _differ(f"{where}.{key}", old.get(key), new.get(key))]
    return [] if old == new else [f"{where}: {old!r} then, {new!r} now"]
