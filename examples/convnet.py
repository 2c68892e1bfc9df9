"""Trains a small ConvNet on images of digits, on several towers, with K-FAC.

    python -m examples.convnet                          two towers, K-FAC, scikit-learn's digits
    python -m examples.convnet --optimizer=momentum --num_towers=1 --model_dir=runs/momentum
    python -m examples.convnet --data_dir=DIR           MNIST's four IDX files, plain or .gz
    python -m examples.convnet --mode=single_machine    the same network in a plain graph

A second run continues from the last checkpoint. Ctrl-C saves a checkpoint and stops. The modes:

    estimator                   replicate.Estimator, on towers. If TF_CONFIG names a cluster, this
                                process takes its role there; workers do not wait for others.
    all_reduce                  a cluster without parameter servers: all workers add up their
                                gradients in each step.
    far_machines                the same, but each trains its own weights, and all meet every
                                --every steps, where a change of a weight is sent in --bits.
    distributed_sync_replicas   a cluster with parameter servers, one step for all workers together;
                                --op_strategy selects the workers that update K-FAC's curvature.
    single_machine, multitower  a plain graph with a loop, on one device or several.

Exit codes: 0 done, 1 bug, 2 flags, TF_CONFIG or files that cannot be used, 3 diverged, 130 or 143
stopped after saving, 138 another process of the cluster cannot be reached.
"""

from absl import flags

from examples import cli, mnist

LEARNING_RATES = {"kfac": 0.01, "momentum": 0.05, "adam": 0.01}
_WITH_ESTIMATOR = ["estimator", "all_reduce", "far_machines", "distributed_sync_replicas"]
MODES = [*_WITH_ESTIMATOR, "single_machine", "multitower"]
MODES_OF_FLAGS = {
    "every": ["far_machines"],
    "bits": ["far_machines"],
    "op_strategy": ["distributed_sync_replicas"],
    "kfac_updates": ["single_machine", "multitower"],
    "progress": _WITH_ESTIMATOR,
    "profile_steps": _WITH_ESTIMATOR,
    "dry_run": ["estimator"],
    "steal": _WITH_ESTIMATOR,
}
FLAGS_OF_KFAC = [
    "damping",
    "final_damping",
    "approx",
    "auto_register",
    "op_strategy",
    "kfac_updates",
]
STRATEGIES = ["chief_worker", "dedicated_workers", "shared"]

FLAGS = flags.FLAGS
cli.define_run_flags(model_dir="runs/convnet", batch_size=128, train_steps=300, eval_every_steps=50)
flags.DEFINE_enum("mode", "estimator", MODES, "How it is trained.")
flags.DEFINE_enum(
    "op_strategy", "chief_worker", STRATEGIES, "Of distributed_sync_replicas, for kfac."
)
flags.DEFINE_integer("every", 50, "Of far_machines: steps from one round to the next.", 1)
flags.DEFINE_enum("bits", "4", ["32", "16", "8", "4"], "Of far_machines: bits of a sent change.")
flags.DEFINE_enum("optimizer", "kfac", list(LEARNING_RATES), "What trains the model.")
cli.define_learning_rate(LEARNING_RATES)
cli.define_momentum(0.9, "Of kfac and momentum; beta1 of adam.")
cli.define_positive("final_learning_rate", None, "Reached in the last step. Default: no change.")
cli.define_positive("damping", 0.03, "Of kfac.")
cli.define_positive("final_damping", None, "Reached in the last step. Default: no change.")
flags.DEFINE_bool("auto_register", False, "Whether kfac finds the layers in the graph by itself.")
flags.DEFINE_enum("approx", "kron", ["kron", "diagonal"], "Of kfac, for the second convolution.")
flags.DEFINE_enum(
    "kfac_updates",
    "by_hand",
    ["by_hand", "periodic"],
    "Of single_machine and multitower, for kfac.",
)


def main() -> None:
    """Trains, evaluates and draws, as the flags say."""
    settings, params = cli.read_run_flags(), read_params()
    with cli.bad_input():
        check_flags()
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"{purpose(params)} on {data.size}")

    cli.import_tensorflow()
    from examples import convnet_model, training  # noqa: PLC0415
    from examples.convnet_modes import (  # noqa: PLC0415
        all_reduce,
        multitower,
        single_machine,
        sync_replicas,
    )

    title = f"ConvNet on {data.name}, {FLAGS.optimizer}"
    if FLAGS.mode == "single_machine":
        single_machine.run(data, settings, params)
    elif FLAGS.mode == "multitower":
        multitower.run(data, settings, params)
    elif FLAGS.mode == "all_reduce":
        all_reduce.run(data, settings, params, title)
    elif FLAGS.mode == "far_machines":
        all_reduce.run(data, settings, params, title, (FLAGS.every, int(FLAGS.bits)))
    elif FLAGS.mode == "distributed_sync_replicas":
        sync_replicas.run(data, settings, params, title)
    else:
        training.run(convnet_model.model_fn, data, settings, params, title)


def check_flags() -> None:
    """Raises ValueError if flags were given that this mode or this optimizer does not use."""
    of_modes = [
        cli.flags_without_effect(
            [name], needs=" or ".join(f"--mode={mode}" for mode in modes), met=FLAGS.mode in modes
        )
        for name, modes in MODES_OF_FLAGS.items()
    ]
    of_kfac = cli.flags_without_effect(
        FLAGS_OF_KFAC, needs="--optimizer=kfac", met=FLAGS.optimizer == "kfac"
    )
    cli.refuse_unused_flags(*of_modes, of_kfac)


def read_params() -> dict[str, object]:
    """Returns the flags of the chosen optimizer and mode, by name."""
    params = {
        "optimizer": FLAGS.optimizer,
        "learning_rate": FLAGS.learning_rate or LEARNING_RATES[FLAGS.optimizer],
        "final_learning_rate": FLAGS.final_learning_rate,
        "momentum": FLAGS.momentum,
    }
    if FLAGS.optimizer == "kfac":
        used = (name for name in FLAGS_OF_KFAC if FLAGS.mode in MODES_OF_FLAGS.get(name, MODES))
        params |= {name: FLAGS[name].value for name in used}
    if FLAGS.final_learning_rate or FLAGS.final_damping:
        params["decay_steps"] = FLAGS.train_steps
    return {name: value for name, value in params.items() if value is not None}


def purpose(params: dict[str, object]) -> str:
    """Returns a line that differs between runs whose checkpoints do not fit each other."""
    diagonal = " with approx=diagonal" if params.get("approx") == "diagonal" else ""
    mode = "" if FLAGS.mode == "estimator" else f" in mode {FLAGS.mode}"
    return f"{FLAGS.optimizer}{diagonal}{mode}"


if __name__ == "__main__":
    cli.run(main)
