"""The programs of 2018 learn on one and on two towers, and what they export predicts the same."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

STEPS = 60

# Runs each program as from a shell on one and on two towers, and then compares its exports.
CHILD = """
import contextlib, importlib, io, json, sys
folder, steps, *names = sys.argv[1:]
import numpy as np
import tensorflow as tf
from absl.testing import flagsaver
from examples import cli
from examples.legacy import program


def requests(features, signature):
    if "examples" not in signature.structured_input_signature[1]:
        return {key: tf.constant(value) for key, value in features.items()}
    rows = []
    for row in zip(*features.values()):
        example = tf.train.Example()
        for key, value in zip(features, row):
            feature = example.features.feature[key]
            if isinstance(value, bytes):
                feature.bytes_list.value.append(value)
            else:
                feature.float_list.value.append(value)
        rows.append(example.SerializeToString())
    return {"examples": tf.constant(rows)}


def run(name):
    module = importlib.import_module(f"examples.legacy.{name}")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = tf.compat.v1.data.make_one_shot_iterator(module.PROGRAM.eval_input_fn()).get_next()
        features, _ = session.run(batch)
    report = {}
    sys.argv[1:] = []
    program.parse_flags()
    for towers in (1, 2):
        flags = {"towers": towers, "steps": steps, "model_dir": f"{folder}/{name}/{towers}",
                 "export_dir": f"{folder}/{name}/export"}
        sys.argv[1:] = [f"--{key}={value}" for key, value in flags.items()]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            cli.parse_flags()
            program.run(module.PROGRAM)
        results, exported = printed.getvalue().splitlines()
        report[towers] = dict(pair.split("=") for pair in results.split())
        signatures = tf.saved_model.load(exported.removeprefix("exported to ")).signatures
        serve = signatures.get("predict", signatures["serving_default"])
        estimator = program.make_estimator(module.PROGRAM, f"{folder}/{name}/{towers}", towers)
        wanted = next(estimator.predict(module.PROGRAM.eval_input_fn, yield_single_examples=False))
        for rows in (len(wanted["probabilities"]), 1):
            first = {key: value[:rows] for key, value in features.items()}
            served = serve(**requests(first, serve))["probabilities"]
            report[f"{towers} towers, {rows} rows"] = float(
                np.abs(served - wanted["probabilities"][:rows]).max()
            )
        report[f"signatures of {towers}"] = sorted(signatures)
    return report


reports = {}
for name in names:
    with flagsaver.flagsaver():
        reports[name] = run(name)
print(json.dumps(reports))
"""


PROGRAMS = {
    "layers_convnet": (0.8, ["serving_default"]),
    "linear_and_deep": (0.9, ["classification", "predict", "serving_default"]),
    "lstm_text": (0.6, ["serving_default"]),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The reports of all programs, by name, from one process."""
    for needed in ("tf_keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path_factory.mktemp("legacy"), str(STEPS), *PROGRAMS],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(240)  # The first one waits for all three programs.
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(reports, name):
    accuracy, signatures = PROGRAMS[name]
    report = reports[name]
    one, two = ({key: float(value) for key, value in report[towers].items()} for towers in "12")
    assert one["accuracy"] >= accuracy
    assert two["accuracy"] >= accuracy
    assert one["global_step"] == two["global_step"] == STEPS
    differences = [value for key, value in report.items() if key.endswith("rows")]
    assert len(differences) == 4
    assert max(differences) <= 1e-6
    assert report["signatures of 1"] == report["signatures of 2"] == signatures
