#!/usr/bin/env bash
# Makes or updates a virtual environment. Called by make, from the project's top folder.
#
#   tools/setup_venv.sh cpu|gpu|pre|docs|tf215
#
# cpu: .venv, exactly what requirements.lock and requirements-legacy.lock pin, checked by hash.
# gpu: .venv, the newest TensorFlow with CUDA. pre: .venv-pre, what requirements-pre.lock pins: the
# TensorFlow that comes next. tf215: .venv-tf215, what requirements-tf215.lock pins.
# docs: .venv-docs, what requirements-docs.lock pins; it also sees the packages of .venv.
# Uses uv where there is one, else venv and pip; what .venv has already, pip need not unpack again
# for docs and pre. Modules get their bytecode when they are first imported, TensorFlow's at the end
# of this. A file .ready-* is written into the environment last, so that an interrupted install is
# never taken for a finished one: it starts afresh.
set -euo pipefail

flavour=$1

fail() {
    echo "setup: $*" >&2
    exit 1
}

case $flavour in
cpu) venv=.venv size="2 GB" lock=requirements.lock ;;
gpu) venv=.venv size="2 GB" lock= ;;
pre) venv=.venv-pre size="2 GB" lock=requirements-pre.lock ;;
docs) venv=.venv-docs size="0.3 GB" lock=requirements-docs.lock ;;
tf215) venv=.venv-tf215 size="1.3 GB" lock=requirements-tf215.lock ;;
*) fail "TF must be cpu, gpu or pre, got '$flavour'." ;;
esac
ready=$venv/.ready-$flavour
if [[ $flavour == docs ]]; then
    python=.venv/bin/python
else
    python=$(bash tools/find_python.sh "$flavour" 2>&1) || fail "$python"
fi

if command -v uv >/dev/null; then
    tool=uv
    create() { uv venv --quiet --python "$("$python" -c 'import sys; print(sys.executable)')" "$venv"; }
    install() { uv pip install --quiet --python "$venv/bin/python" "$@"; }
else
    tool=pip
    create() { "$python" -m venv "$venv"; }
    install() { "$venv/bin/python" -m pip install -qq --no-compile --disable-pip-version-check "$@"; }
fi

same_python() { cmp -s <(.venv/bin/python -V) <("$venv/bin/python" -V); }

what="$venv ($flavour, $("$python" -V 2>&1), $tool)"
if [[ -e $ready && $("$python" -V 2>&1) == "$("$venv/bin/python" -V 2>&1)" ]]; then
    echo "setup: updating $what"
    rm -f "$ready"
    if [[ $tool == pip ]]; then "$venv/bin/python" -m ensurepip >/dev/null; fi
else
    echo "setup: making $what: about $size, a minute or two"
    rm -rf "$venv"
    create || fail "cannot make $venv. On Debian and Ubuntu: apt-get install python3-venv"
    if [[ $tool == pip && $flavour == @(docs|pre) && -e .venv/.ready-cpu ]] && same_python; then
        .venv/bin/python tools/link_packages.py "$venv" --pins "$lock"
    fi
fi

if [[ -n $lock ]]; then
    install --require-hashes -r "$lock"
    if [[ $flavour == cpu ]]; then install --require-hashes --no-deps -r requirements-legacy.lock; fi
    if [[ $flavour == docs ]]; then
        packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
        echo "import site; site.addsitedir('$(packages .venv)')" >"$(packages "$venv")/training_venv.pth"
    else
        install --no-deps --no-build-isolation -e .
    fi
else
    install -e '.[gpu,examples,dev]'
fi
[[ $flavour == docs ]] \
    || env -u PYTHONDONTWRITEBYTECODE TF_CPP_MIN_LOG_LEVEL=3 "$venv/bin/python" -c "import tensorflow" 2>/dev/null \
    || fail "TensorFlow cannot be imported: $venv/bin/python -c 'import tensorflow' says why"
touch "$ready"
echo "setup: done in $SECONDS s, $venv takes $(du -sh "$venv" | cut -f1)"
