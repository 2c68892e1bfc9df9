"""Time of a step with tensorflow/kfac, compared with momentum SGD in the same TensorFlow.

python -m benchmarks.rival_step --model=convnet --repeats=5
"""

from collections.abc import Sequence

from absl import flags

from benchmarks import harness, rivals
from benchmarks.kfac_step import __main__ as kfac_step

FLAGS = flags.FLAGS


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, then prints and saves the results."""
    python = rivals.install(FLAGS.environments)
    options = [f"--{flag}={FLAGS[flag].value}" for flag in ("batch_size", "repeats", "block")]
    found = {}
    for model in FLAGS.model:
        command = rivals.command(python, "kfac_step", "--here", f"--model={model}", *options)
        name = f"{model}, {rivals.NAME}"
        found[name] = harness.read_json(command, f"time {name}", FLAGS.seconds)
    print("\n".join(kfac_step.time_lines(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    rivals.define_flags([rivals.NAME])
    kfac_step.define_flags(repeats=5)
    flags.DEFINE_float("seconds", 200, "Time limit of the rival for a model.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
