#!/usr/bin/env bash
# Makes or updates .venv. Called by `make setup`, from the project's top folder.
#
#   tools/setup_venv.sh cpu|gpu
#
# cpu: exactly what requirements.lock pins, checked by hash. gpu: the newest TensorFlow with CUDA.
# Uses uv where there is one, else venv and pip. .venv/.ready-cpu or .venv/.ready-gpu is written
# last, so that an interrupted install is never taken for a finished one: it starts afresh.
set -euo pipefail

flavour=$1
python=${PYTHON:-python3}
ready=.venv/.ready-$flavour

fail() {
    echo "setup: $*" >&2
    exit 1
}

[[ $flavour == cpu || $flavour == gpu ]] || fail "TF must be cpu or gpu, got '$flavour'."
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    fail "cannot run '$python'. Install Python 3.10 to 3.13, or name one: make setup PYTHON=/path/to/python3"
case $version in
3.10 | 3.11 | 3.12 | 3.13) ;;
*) fail "needs Python 3.10 to 3.13 (what TensorFlow supports), but '$python' is $version. Name another: make setup PYTHON=python3.12" ;;
esac

if command -v uv >/dev/null; then
    tool=uv
    create() { uv venv --quiet --python "$("$python" -c 'import sys; print(sys.executable)')" .venv; }
    install() { uv pip install --quiet --python .venv/bin/python "$@"; }
else
    tool=pip
    create() { "$python" -m venv .venv; }
    install() { .venv/bin/python -m pip install -qq --disable-pip-version-check "$@"; }
fi

if [[ -e $ready && $("$python" -V 2>&1) == "$(.venv/bin/python -V 2>&1)" ]]; then
    echo "setup: updating .venv ($flavour, Python $version, $tool)"
    rm -f "$ready"
    if [[ $tool == pip ]]; then .venv/bin/python -m ensurepip >/dev/null; fi
else
    echo "setup: making .venv ($flavour, Python $version, $tool): about 2 GB, a minute or two"
    rm -rf .venv
    create || fail "cannot make .venv. On Debian and Ubuntu: apt-get install python3-venv"
fi

if [[ $flavour == cpu ]]; then
    install --require-hashes -r requirements.lock
    install --no-deps --no-build-isolation -e .
else
    install -e '.[gpu,examples,dev]'
fi
touch "$ready"
echo "setup: done in $SECONDS s, .venv takes $(du -sh .venv | cut -f1)"
