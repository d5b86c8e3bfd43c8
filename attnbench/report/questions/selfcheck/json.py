"""What a selfcheck found, as JSON: every figure of the tables with its counts."""

import json
from typing import Any

from attnbench.analyze.pooled import Rule
from attnbench.analyze.power import INJECTED, LIKELY, SOUGHT, SURE, Hits, Power, Smallest, smallest
from attnbench.analyze.selfcheck import Calibration
from attnbench.analyze.statistics import Interval
from attnbench.report.questions.selfcheck.notes import cell_words, subject
from attnbench.schema.run import RunInfo

_Data = dict[str, Any]


def as_json(found: Calibration, run: RunInfo) -> str:
    """Strict JSON; null where there is no figure. Shares, not per cent; seconds."""
    overall = found.overall
    data = {
        "schema_version": 1,
        "run": run.id,
        "environment": run.environment_digest,
        "device": run.surroundings.device,
        "method": subject(found.plan),
        "cell": cell_words(found.plan),
        "verdicts": found.plan.verdicts,
        "replicates": found.plan.replicates,
        "margin": found.margin,
        "injected": found.plan.injected,
        "seconds": found.seconds,
        "processes_sd": found.processes,
        "rounds_span": found.rounds,
        "lost": found.lost,
        "reason": found.reason,
        "flags": dict(found.flags),
        "together": _hits(found.together),
        "overall": None if overall is None else {"ratio": overall.value, **_ends(overall.interval)},
        "noise_floor": [{"replicates": replicates, "effect": effect} for replicates, effect in found.floor],
        "paired": [_power(power) for power in found.paired],
        "unpaired": [_power(power) for power in found.unpaired],
        "pooled_rules": [_rule(rule) for rule in found.others],
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _rule(rule: Rule) -> _Data:
    sought = zip(SOUGHT, rule.sought, strict=True)
    return {
        "rule": rule.name,
        "alarms": _hits(rule.alarms),
        "sought": [{"injected": effect, **_hits(hits)} for (effect, _), hits in sought],
    }


def _power(power: Power) -> _Data:
    curve = zip(INJECTED, power.at_margin, power.bare, strict=True)
    sought = zip(SOUGHT, power.sought, strict=True)
    return {
        "replicates": power.replicates,
        "faster": _hits(power.faster),
        "slower": _hits(power.slower),
        "alarms": _hits(power.alarms),
        "significant": _hits(power.significant),
        "same": _hits(power.same),
        "half_width": power.half_width,
        "sought": [{"injected": effect, "margin": margin, **_hits(hits)} for (effect, margin), hits in sought],
        "curve": [{"injected": x, "at_margin": _hits(at), "no_margin": _hits(bare)} for x, at, bare in curve],
        "smallest": {
            "sure_no_margin": _smallest(smallest(power.bare, SURE)),
            "likely_no_margin": _smallest(smallest(power.bare, LIKELY)),
            "sure_at_margin": _smallest(smallest(power.at_margin, SURE)),
        },
    }


def _hits(hits: Hits) -> _Data:
    return {"hits": hits.hits, "of": hits.of, "share": hits.share, **_ends(hits.interval if hits.of else None)}


def _ends(interval: Interval | None) -> _Data:
    return {"low": None if interval is None else interval.low, "high": None if interval is None else interval.high}


def _smallest(found: Smallest) -> _Data:
    return {"effect": found.effect, "low": found.low, "high": found.high}
