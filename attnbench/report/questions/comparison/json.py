"""A judgement as JSON, for programs."""

import json

from attnbench.analyze.gate import Exit
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.table import record

VERSION = 1


def judgement_json(judgement: Judgement, code: Exit) -> str:
    """The exit code and its name, the terms, and one object a cell; SI units, null for what is missing."""
    data = {
        "schema_version": VERSION,
        "exit_code": int(code),
        "result": code.name.lower(),
        "title": judgement.title,
        "conclusion": judgement.conclusion,
        "margin": judgement.terms.margin,
        "level": judgement.terms.level,
        "paired": judgement.terms.paired,
        "notes": judgement.notes,
        "cells": [record(comparison) for comparison in judgement.sorted],
    }
    return json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False) + "\n"
