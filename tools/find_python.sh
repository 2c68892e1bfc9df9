#!/usr/bin/env bash
# Prints the Python that a virtual environment is to be made with, or fails and says why.
# Called by setup_venv.sh, and by .ci/run to see whether there is one.
#
#   tools/find_python.sh cpu|gpu|pre|tf215
#
# cpu, gpu, pre: $PYTHON, else python3. tf215: $PYTHON_TF215, else the first of $PYTHON or python3,
# python3.11 and python3.10 that TensorFlow 2.15 supports.
set -euo pipefail

if [[ $1 == tf215 ]]; then
    who="TensorFlow 2.15 needs Python 3.10 or 3.11" versions=" 3.10 3.11 "
    hint="make test-tf215 PYTHON_TF215=/path/to/python3.11"
    candidates=("${PYTHON:-python3}" python3.11 python3.10)
    if [[ -n ${PYTHON_TF215:-} ]]; then candidates=("$PYTHON_TF215"); fi
elif [[ $1 == pre ]]; then
    who="TensorFlow 2.22 needs Python 3.10 to 3.14" versions=" 3.10 3.11 3.12 3.13 3.14 "
    hint="make setup TF=pre PYTHON=/path/to/python3.14"
    candidates=("${PYTHON:-python3}")
else
    who="TensorFlow 2.21 needs Python 3.10 to 3.13" versions=" 3.10 3.11 3.12 3.13 "
    hint="make setup PYTHON=/path/to/python3.12; for Python 3.14: make setup TF=pre"
    candidates=("${PYTHON:-python3}")
fi

seen=
for python in "${candidates[@]}"; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=
    if [[ -n $version && $versions == *" $version "* ]]; then
        echo "$python"
        exit
    fi
    seen+=", '$python' ${version:-cannot be run}"
done
echo "$who; found: ${seen:2}. Install one, or name it: $hint" >&2
exit 1
