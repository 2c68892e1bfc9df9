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


def run(name, towers):
    module = importlib.import_module(f"examples.legacy.{name}")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = tf.compat.v1.data.make_one_shot_iterator(module.PROGRAM.eval_input_fn()).get_next()
        features, _ = session.run(batch)
    sys.argv[1:] = []
    program.parse_flags()
    flags = {"towers": towers, "steps": steps, "model_dir": f"{folder}/{name}/{towers}",
             "export_dir": f"{folder}/{name}/export"}
    sys.argv[1:] = [f"--{key}={value}" for key, value in flags.items()]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        cli.parse_flags()
        program.run(module.PROGRAM)
    results, exported = printed.getvalue().splitlines()
    report = dict(pair.split("=") for pair in results.split())
    signatures = tf.saved_model.load(exported.removeprefix("exported to ")).signatures
    serve = signatures.get("predict", signatures["serving_default"])
    estimator = program.make_estimator(module.PROGRAM, f"{folder}/{name}/{towers}", towers)
    wanted = next(estimator.predict(module.PROGRAM.eval_input_fn, yield_single_examples=False))
    served = serve(**requests(features, serve))["probabilities"]
    report["difference"] = float(np.abs(served - wanted["probabilities"]).max())
    report["signatures"] = sorted(signatures)
    return report


reports = {}
for name, towers in json.loads(programs).items():
    with flagsaver.flagsaver():
        reports[name] = run(name, towers)
print(json.dumps(reports))
"""


# Towers, the least accuracy, and the signatures of the export.
PROGRAMS = {
    "layers_convnet": (2, 0.8, ["serving_default"]),
    "linear_and_deep": (1, 0.9, ["classification", "predict", "serving_default"]),
    "lstm_text": (2, 0.6, ["serving_default"]),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "names",
    [["linear_and_deep"], pytest.param(["layers_convnet", "lstm_text"], marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_programs_learn_and_their_exports_predict_the_same(run_python, tmp_path, names):
    if importlib.util.find_spec("sklearn") is None:
        pytest.skip("sklearn is not installed")
    numbers = {name: PROGRAMS[name][0] for name in names}
    done = run_python(CHILD, tmp_path, STEPS, json.dumps(numbers), timeout=230, quick=True)
    assert done.code == 0, done.err
    reports = json.loads(done.out.splitlines()[-1])
    assert list(reports) == names
    for name, report in reports.items():
        _, accuracy, signatures = PROGRAMS[name]
        assert float(report["accuracy"]) >= accuracy
        assert float(report["global_step"]) == STEPS
        assert report["signatures"] == signatures
        assert report["difference"] <= 1e-6
