"""Percentiles of the time to recovery, over many kills of each kind of task.

With -s, a row of a Markdown table is printed for each kind of task and way of training.
`--kills=100` makes 100 kills for each row. All tasks are forks of one process that has imported
TensorFlow; a random wait stands for the import.
"""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

TRAINER = Path(__file__).parents[1] / "trainer.py"
ENDLESS = 10**9
IMPORT_SECS = 2
KINDS = {
    "worker": "worker",
    "chief": "chief",
    "ps": "parameter server",
    "evaluator": "evaluator",
    "all": "chief, worker and parameter server",
}
GOAL_SECS = 2.0
COLUMNS = [
    "killed",
    "training",
    "kills",
    *(
        f"{part}: {what}"
        for part in ("seconds", "after the import")
        for what in ("p50", "p95", "max")
    ),
    "most steps again",
]


@pytest.fixture(scope="module")
def row(print_row):
    """Prints a row of the table, whose head is printed once."""
    print()
    print_row(*COLUMNS)
    print_row(*["---"] * len(COLUMNS))
    return print_row


def percentiles(values):
    """Returns the median, the 95th percentile and the largest one, as text."""
    return [f"{value:.2f}" for value in np.percentile(values, [50, 95, 100])]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("kind", KINDS)
def test_recovery_takes_seconds(
    kind, mode, request, row, cluster, journal, tmp_path, faulty, kill, seed
):
    count = request.config.getoption("--kills")
    supervisor = cluster(
        TRAINER,
        mode,
        tmp_path,
        ENDLESS,
        ENDLESS,
        evaluator=kind == "evaluator",
        forks=True,
        restarts=10 * count,
        max_delay_secs=1,
        environment={"IMPORT_SECS": str(IMPORT_SECS)},
    )
    killer = kill.Killer(supervisor, journal, tmp_path, [kind] * count, seed, None)
    journal.react = killer
    assert supervisor.run() == 0
    made = killer.recoveries
    assert len(made) == count
    saved = tf.train.load_checkpoint(str(tmp_path))
    steps = int(saved.get_tensor("global_step"))
    assert steps >= count
    faulty.check_weights(mode, saved, steps, losses=count)
    row(
        KINDS[kind],
        {"async": "asynchronous", "sync": "synchronous"}[mode],
        count,
        *percentiles([each.secs for each in made]),
        *percentiles([each.secs_from_import for each in made]),
        max(0, *(each.step - each.back for each in made)) if kind != "evaluator" else "–",
    )
    assert np.percentile([each.secs_from_import for each in made], 95) <= GOAL_SECS
