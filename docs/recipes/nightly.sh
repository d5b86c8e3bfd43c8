#!/usr/bin/env bash
# A night's measurement on a machine of one's own: bring the checkout up to date, measure, keep the run, look back.
# Usage: nightly.sh CHECKOUT STATE [SUITE]. CHECKOUT has a virtual environment in .venv; STATE is any folder.
set -euo pipefail

usage="usage: nightly.sh CHECKOUT STATE [SUITE]"
checkout=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
state=$(cd "$2" && pwd)
suite=${3:-kernels}

cd "$checkout"
PATH="$checkout/.venv/bin:$PATH"
git pull --quiet --ff-only
pip install --quiet -e .

# once on each machine: what it can tell from chance; no finer margin passes the gate here
if [ ! -e "$state/selfcheck.done" ]; then
  attnbench selfcheck --out "$state/selfcheck"
  touch "$state/selfcheck.done"
fi

# a run that ends early stays here, for attnbench run --resume
new=$(mktemp --directory "$state/run.XXXXXX")
attnbench run "$suite" --replicates 10 --results "$new"
attnbench history add "$new"/*/*/ --to "$state/history"
rm -r "$new"

# the night ends in failure where something got slower, or was lost, and stayed so
attnbench trend "$state/history" --html "$state/trend.html" --fail-on regression
