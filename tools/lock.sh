#!/usr/bin/env bash
# Writes requirements.lock, requirements-pre.lock, requirements-docs.lock, requirements-legacy.lock
# and requirements-tf215.lock: every package that `make setup`, `make docs` and `make test-tf215`
# install, for each supported Python, with hashes. Called by `make lock`. Uses uv where there is one,
# else a temporary copy of it.
set -euo pipefail

uv=$(command -v uv || true)
if [[ -z $uv ]]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    "${PYTHON:-python3}" -m venv "$scratch"
    "$scratch/bin/python" -m pip install --quiet --disable-pip-version-check uv
    uv=$scratch/bin/uv
fi

# compile LOCK SOURCE OPTION...: what the source, with the extras or groups in the options, needs.
compile() {
    local lock=$1 source=$2
    shift 2
    "$uv" pip compile "$source" --quiet --no-config --upgrade --universal \
        --python-version 3.10 --generate-hashes --custom-compile-command "make lock" "$@" \
        --output-file "$lock"
    echo "lock: $(grep -c '^[a-z].*==' "$lock") pins in $lock"
}

training=(--extra cpu --extra examples --extra contrib --extra migrate --extra python2 --extra dev)
compile requirements.lock pyproject.toml "${training[@]}"
# TensorFlow's wheels ask for another h5py on Python 3.14 than on older ones; uv reads one of them.
compile requirements-pre.lock pyproject.toml "${training[@]}" --group pre --overrides /dev/stdin <<'END'
h5py>=3.15.1,<3.16 ; python_version >= '3.14'
h5py>=3.11,<3.15 ; python_version < '3.14'
END
compile requirements-docs.lock pyproject.toml --extra docs
compile requirements-tf215.lock pyproject.toml --group tf215
# Alone: it asks for the distribution `tensorflow`, whose files are those of `tensorflow-cpu`.
tensorflow=$(sed -n 's/^tensorflow-cpu==\([0-9]*\.[0-9]*\).*/\1/p' requirements.lock | head -n 1)
compile requirements-legacy.lock - --no-deps <<<"tf-keras==$tensorflow.*"
