#!/usr/bin/env bash
# Writes requirements.lock: every package that `make setup` installs, for each supported Python,
# with hashes. Called by `make lock`. Uses uv where there is one, else a temporary copy of it.
set -euo pipefail

uv=$(command -v uv || true)
if [[ -z $uv ]]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    "${PYTHON:-python3}" -m venv "$scratch"
    "$scratch/bin/python" -m pip install --quiet --disable-pip-version-check uv
    uv=$scratch/bin/uv
fi
"$uv" pip compile pyproject.toml --quiet --no-config --upgrade --universal --python-version 3.10 \
    --extra cpu --extra examples --extra dev \
    --generate-hashes --custom-compile-command "make lock" --output-file requirements.lock
echo "lock: $(grep -c '^[a-z].*==' requirements.lock) pins in requirements.lock"
