"""Programs of guides that promise to survive a kill are killed, and started again."""

import re
import signal
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "howto"
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)

PRELUDE = """
import functools, os, signal, sys
import replicate
import tensorflow as tf
v1 = tf.compat.v1

class Kill(v1.train.SessionRunHook):
    def after_create_session(self, session, coord):
        print("first step", session.run(v1.train.get_global_step()), flush=True)

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        if run_values.results == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

train = replicate.Estimator.train
replicate.Estimator.train = lambda self, input_fn: train(self, input_fn, hooks=[Kill()])
replicate.RunConfig = functools.partial(
    replicate.RunConfig, sys.argv[1], save_checkpoints_steps=40)
"""


@pytest.mark.broad
def test_keras_model_goes_on_after_a_kill(start_python, tmp_path):
    (program,) = PROGRAM.findall((GUIDES / "keras_models.md").read_text())
    model_dir = tmp_path / "run"
    for kill_at, first_step, code in ((100, 0, -signal.SIGKILL), (-1, 80, 0)):
        child = start_python(PRELUDE + program, model_dir, str(kill_at))
        out, err = child.communicate(timeout=120)
        assert child.returncode == code, err
        assert out.startswith(f"first step {first_step}\n")
    assert (model_dir / "model.ckpt-240.index").exists()
