"""Random faults every few seconds, for minutes: training ends, with the right weights.

With -s, a line is printed for each fault, and a row of a Markdown table for each training.
`--minutes=15` makes each of the two trainings as long, and `--seed` draws other faults.
"""

import re
import threading
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
MINUTES = 2.5
RESTARTS = 100_000
ENDLESS = 10**9
STEPS_PER_MINUTE = 400
ACCURACY = 0.97


@pytest.fixture
def minutes(request):
    return request.config.getoption("--minutes") or MINUTES


@pytest.fixture
def in_chaos(cluster, proxied_plan, network, chaos, seed, minutes):
    """Runs a cluster in chaos, and returns the first cells of its row in the table."""

    def run(name, folder, *arguments, at_end=lambda: None, **settings):
        plan = proxied_plan(evaluator=True)
        supervisor = cluster(*arguments, plan=plan, restarts=RESTARTS, max_delay_secs=2, **settings)
        secs = 60 * minutes
        with chaos.Chaos(supervisor, plan, network.Condition, folder, seed, secs) as faults:
            ender = threading.Thread(target=lambda: (faults.wait(), at_end()))
            ender.start()
            code = supervisor.run()
        ender.join()
        assert code == 0
        assert faults.made.total() >= secs / 20
        return [name, seed, f"{minutes:g}", *(faults.made[kind] for kind in chaos.KINDS)]

    return run


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_synchronous_training_has_the_weights_of_an_undisturbed_one(
    in_chaos, faulty, print_row, tmp_path
):
    cells = in_chaos(
        "weights",
        tmp_path,
        TRAINER,
        "sync",
        tmp_path,
        ENDLESS,
        ENDLESS,
        at_end=(tmp_path / "end").touch,
        environment={"STEP_TIMEOUT_SECS": "20", "TIMEOUT_SECS": "120"},
    )
    saved = tf.train.load_checkpoint(str(tmp_path))
    last = int(saved.get_tensor("global_step"))
    faulty.check_weights("sync", saved, last, losses=0)
    assert last >= 10
    print_row(*cells, last, "NumPy's weights")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_digits_are_learnt(in_chaos, minutes, journal, print_row, tmp_path):
    steps = int(minutes * STEPS_PER_MINUTE)
    cells = in_chaos(
        "digits",
        tmp_path,
        "-m",
        "examples.convnet",
        f"--model_dir={tmp_path}",
        "--mode=distributed_sync_replicas",
        f"--train_steps={steps}",
        "--num_towers=1",
        "--batch_size=64",
        "--save_every_steps=20",
        "--progress=log",
    )
    said = "\n".join(journal.of("chief 0"))
    accuracy = float(re.findall(r"^test accuracy +([0-9.]+)", said, re.MULTILINE)[-1])
    print_row(*cells, steps, f"test accuracy {accuracy}")
    assert accuracy >= ACCURACY
