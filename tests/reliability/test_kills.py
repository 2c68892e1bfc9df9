"""Tasks of a cluster are killed by SIGKILL in the middle of training, and start again.

With -s, a line is printed for each recovery. `kills.py` makes the kills.
"""

from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).with_name("trainer.py")
SAVE_STEPS = 10
KILLS = ["worker", "chief", "ps", "evaluator", "all"]

EAGER = """
import sys
import tensorflow as tf
import replicate

strategy = tf.distribute.MultiWorkerMirroredStrategy()
config = replicate.RunConfig(model_dir=sys.argv[1], train_distribute=strategy, progress="off")
estimator = replicate.Estimator(lambda features, mode: None, config=config)
try:
    estimator.train(lambda: tf.data.Dataset.range(4).batch(2), max_steps=1)
except ValueError as error:
    print("refused", error, flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "kills"), [("async", KILLS), ("sync", KILLS)])
def test_training_survives_the_loss_of_tasks(mode, kills, cluster, journal, tmp_path, faulty, kill):
    steps = kill.PHASE * (len(kills) + 1)
    supervisor = cluster(
        TRAINER,
        mode,
        tmp_path,
        steps,
        kill.PHASE,
        evaluator="evaluator" in kills,
        restarts=10,
        environment={"TIMEOUT_SECS": "120"},
    )
    killer = kill.Killer(supervisor, journal, tmp_path, kills, seed=len(kills))
    journal.react = killer
    assert supervisor.run() == 0
    assert [recovery.kill for recovery in killer.recoveries] == kills
    for recovery in killer.recoveries:
        may_be_lost = SAVE_STEPS + 1 if recovery.kill in ("ps", "all") else 0
        assert recovery.kill == "evaluator" or recovery.step - recovery.back <= may_be_lost
        assert recovery.secs_from_import < 30
    saved = tf.train.load_checkpoint(str(tmp_path))
    faulty.check_weights(mode, saved, steps, losses=len(kills))
    if "evaluator" in kills:
        last = int(saved.get_tensor("global_step"))
        assert journal.of("evaluator 0")[-1] == f"evaluated {last}"


@pytest.mark.broad
@pytest.mark.timeout(120)
def test_strategy_that_was_made_eagerly_and_has_the_port_is_refused(cluster, journal, tmp_path):
    supervisor = cluster("-c", EAGER, tmp_path, workers=2, ps=0, evaluator=False)
    assert supervisor.run() == 0
    for name in ("chief 0", "worker 0"):
        (told,) = [text for text in journal.of(name) if text.startswith("refused")]
        assert told.startswith(f"refused Cannot start the server of {name} on port ")
        assert "MultiWorkerMirroredStrategy() does when it is made outside of a graph" in told
        assert "RunConfig(train_distribute=replicate.AllReduce())" in told
