"""Faults of the network between the tasks of a cluster, all of whose traffic passes proxies.

`faults.py` says when they begin, and prints a line for each.
"""

from pathlib import Path

import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow

TRAINER = Path(__file__).with_name("trainer.py")
START_SECS = 60
"""Seconds for a task to start, twice what it takes on a busy machine."""

FAULTS = {
    "50 ms each way": {"delay_secs": 0.05},
    "500 ms each way": {"delay_secs": 0.5},
    "20 kB/s": {"bytes_per_sec": 20_000},
    "reset": {"resets": True},
    "blackhole": {"silent": "both"},
    "blackhole, bytes lost": {"silent": "both", "loses": True},
    "one way": {"silent": "out"},
    "the other way": {"silent": "back"},
    "forgotten": None,
}
CHIEF, WORKER, PS = "chief 0", "worker 0", "ps 0"
BRIEF = [
    ("50 ms each way", (CHIEF, PS), 5),
    ("500 ms each way", (WORKER, PS), 10),
    ("20 kB/s", (CHIEF, WORKER, PS), 5),
    ("reset", (CHIEF, PS), 1),
    ("reset", (WORKER, PS), 5),
    ("blackhole", (CHIEF, PS), 5),
    ("blackhole", (WORKER, PS), 5),
    ("blackhole", (WORKER, CHIEF), 5),
    ("blackhole", (CHIEF, WORKER, PS), 5),
    ("blackhole, bytes lost", (CHIEF, PS), 5),
    ("blackhole, bytes lost", (WORKER, PS), 5),
    ("one way", (CHIEF, PS), 5),
    ("the other way", (WORKER, PS), 5),
]


def network_fault(name, tasks, secs, plan, condition, fault_type):
    """Returns a fault between some tasks."""
    links = plan.between(*tasks)

    def begin():
        for link in links:
            if FAULTS[name] is None:
                link.forget()
            else:
                link.condition = condition(**FAULTS[name])

    def end():
        for link in links:
            link.condition = condition()

    between = "-".join(task.split()[0] for task in tasks)
    return fault_type(f"{name:<21} {between}", secs, begin, end)


@pytest.fixture
def train_with(cluster, journal, proxied_plan, network, faulty, tmp_path):
    """Trains while the network has faults; returns exit code, effects, and the last checkpoint."""

    def train(mode, faults, step_timeout_secs, timeout_secs=120, restarts=6, seed=0):
        plan = proxied_plan()
        supervisor = cluster(
            TRAINER,
            mode,
            tmp_path,
            faulty.steps_for(len(faults)),
            faulty.PHASE,
            plan=plan,
            evaluator=False,
            restarts=restarts,
            environment={
                "STEP_TIMEOUT_SECS": str(step_timeout_secs),
                "TIMEOUT_SECS": str(timeout_secs),
                "VERBOSITY": "WARN",
            },
        )
        planned = [network_fault(*f, plan, network.Condition, faulty.Fault) for f in faults]
        with faulty.Faults("network", mode, planned, tmp_path, seed) as made:
            journal.react = made
            code = supervisor.run()
        return code, made.effects, tf.train.load_checkpoint(str(tmp_path))

    return train


def errors_of(journal):
    """Lines with which processes ended because of others."""
    return [text for name in (CHIEF, WORKER, PS) for text in journal.of(name) if "has made" in text]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
def test_training_goes_on_after_brief_faults(mode, train_with, faulty):
    code, effects, saved = train_with(mode, BRIEF, step_timeout_secs=60, seed=1)
    assert code == 0
    assert len(effects) == len(BRIEF)
    assert [effect.ended for effect in effects] == [0] * len(BRIEF)
    assert max(effect.back for effect in effects) < 60, "one session may wait 30 s for an answer"
    faulty.check_weights(mode, saved, faulty.steps_for(len(BRIEF)), losses=len(BRIEF))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
def test_a_long_blackhole_below_the_limit_is_waited_for(mode, train_with, faulty):
    faults = [("blackhole", (CHIEF, WORKER, PS), 60)]
    code, effects, saved = train_with(mode, faults, step_timeout_secs=120)
    assert code == 0
    assert [effect.ended for effect in effects] == [0]
    faulty.check_weights(mode, saved, faulty.steps_for(1), losses=1)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["sync", "async", "average"])
@pytest.mark.parametrize("name", ["blackhole", "blackhole, bytes lost"])
def test_a_blackhole_beyond_the_limit_ends_with_the_name(name, mode, train_with, journal):
    faults = [(name, (CHIEF, WORKER, PS), 60)]
    code, effects, _ = train_with(mode, faults, step_timeout_secs=20, restarts=0)
    assert effects == []
    assert code == 138
    lines = errors_of(journal)
    assert lines
    assert all("no answer from" in line and " at '127.0.0.1:" in line for line in lines)
    print(f"network     | {mode:<7} {name:<21} 60 s, limit 20 s: exit code {code}: {lines[0]}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mode", "tasks"), [("sync", (CHIEF, PS)), ("async", (WORKER, PS)), ("average", (CHIEF, PS))]
)
def test_forgotten_connections_are_named_and_made_anew(tasks, mode, train_with, journal, faulty):
    faults = [("forgotten", tasks, 5), ("blackhole", (WORKER, PS), 5)]
    code, effects, saved = train_with(mode, faults, step_timeout_secs=START_SECS)
    assert code == 0
    assert effects[0].back < 6 * START_SECS
    assert any("is dead: no value" in line for line in errors_of(journal))
    if mode == "sync":
        faulty.check_weights(mode, saved, faulty.steps_for(2), losses=0)
