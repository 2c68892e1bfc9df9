"""The programs of 2018 learn, two of them on towers, and their exports predict the same."""

import importlib.util
import json

import pytest

STEPS = 60

# Runs each program as from a shell on numbers of towers, and then compares its exports.
CHILD = """
import contextlib, importlib, io, json, sys
folder, steps, programs = sys.argv[1:]
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


def run(name, numbers):
    module = importlib.import_module(f"examples.legacy.{name}")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = tf.compat.v1.data.make_one_shot_iterator(module.PROGRAM.eval_input_fn()).get_next()
        features, _ = session.run(batch)
    report = {}
    sys.argv[1:] = []
    program.parse_flags()
    for towers in numbers:
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
for name, numbers in json.loads(programs).items():
    with flagsaver.flagsaver():
        reports[name] = run(name, numbers)
print(json.dumps(reports))
"""


PROGRAMS = {
    "layers_convnet": (0.8, [2], ["serving_default"]),
    "linear_and_deep": (0.9, [1], ["classification", "predict", "serving_default"]),
    "lstm_text": (0.6, [2], ["serving_default"]),
}


@pytest.fixture
def reports(run_python, tmp_path):
    """Makes the reports of programs, by name, in one process."""
    for needed in ("tf_keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")

    def report(names):
        numbers = {name: PROGRAMS[name][1] for name in names}
        done = run_python(CHILD, tmp_path, STEPS, json.dumps(numbers), timeout=230, quick=True)
        assert done.code == 0, done.err
        return json.loads(done.out.splitlines()[-1])

    return report


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "names",
    [["linear_and_deep"], pytest.param(["layers_convnet", "lstm_text"], marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_programs(reports, names):
    found = reports(names)
    assert list(found) == names
    for name, report in found.items():
        check(report, *PROGRAMS[name])


def check(report, accuracy, numbers, signatures):
    for towers in numbers:
        results = {key: float(value) for key, value in report[str(towers)].items()}
        assert results["accuracy"] >= accuracy
        assert results["global_step"] == STEPS
        assert report[f"signatures of {towers}"] == signatures
    differences = [value for key, value in report.items() if key.endswith("rows")]
    assert len(differences) == 2 * len(numbers)
    assert max(differences) <= 1e-6
