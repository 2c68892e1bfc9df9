#!/usr/bin/env bash
# Runs the first program of README.md in an empty environment that has a wheel and its extra `cpu`,
# in the versions of requirements.lock, and nothing else. Called by `make build`.
#
#   tools/try_wheel.sh WHEEL
set -euo pipefail

wheel=$(realpath "$1")
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sed -n 's/^\([a-z0-9][^ ]*==[^\\]*\)\\*$/\1/p' "$root/requirements.lock" >"$scratch/constraints.txt"
awk '/^```python$/ {inside = 1; next} inside && /^```$/ {exit} inside' "$root/README.md" \
    >"$scratch/program.py"

"$root/.venv/bin/python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    --constraint "$scratch/constraints.txt" "$wheel[cpu]"
cd "$scratch"
venv/bin/python program.py 2>log || {
    cat log
    echo "try_wheel: README's program failed with $(basename "$wheel")"
    exit 1
}
[[ -e runs/readme/checkpoint ]] || {
    echo "try_wheel: README's program left no checkpoint in runs/readme"
    exit 1
}
echo "try_wheel: README's program ran with $(basename "$wheel")"
