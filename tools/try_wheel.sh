#!/usr/bin/env bash
# Runs the programs of README.md and of docs/howto in an empty environment that has a
# wheel and what the wheel and its extra `cpu` declare to need, in the versions of .venv, and nothing
# else. Called by `make build`. Without --all it leaves out the slowest programs and those that need
# more extras.
#
#   tools/try_wheel.sh [--all] WHEEL
set -euo pipefail

extras=cpu
left_out=canned_1.py,kfac_1.py,kfac_keras_1.py,kfac_keras_2.py
if [[ $1 == --all ]]; then
    shift
    extras=cpu,examples
    left_out=
fi
wheel=$(realpath "$1")
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

awk -v start="$scratch/program" '/^```python$/ {inside = start (++count) ".py"; next}
    /^```$/ {inside = ""} inside {print > inside}' "$root/README.md"
"$root/.venv/bin/python" "$root/tools/howto_programs.py" "$scratch/howto"

"$root/.venv/bin/python" -m venv "$scratch/venv"
"$root/.venv/bin/python" "$root/tools/link_packages.py" "$scratch/venv" --wheel "$wheel" --extras="$extras"
"$scratch/venv/bin/python" -m pip install -qq --disable-pip-version-check --no-index --no-deps "$wheel"
"$scratch/venv/bin/python" -m pip check
cd "$scratch"
for program in program*.py; do
    venv/bin/python "$program" >log 2>&1 || {
        cat log
        echo "try_wheel: README's $program failed with $(basename "$wheel")"
        exit 1
    }
done
[[ -e runs/readme/checkpoint ]] || {
    echo "try_wheel: README's programs left no checkpoint in runs/readme"
    exit 1
}
venv/bin/python "$root/tools/try_programs.py" howto --except="$left_out" 2>log || {
    cat log
    echo "try_wheel: a program of docs/howto failed with $(basename "$wheel")"
    exit 1
}
echo "try_wheel: README's programs and those of docs/howto ran with $(basename "$wheel")"
