"""Faults of the processes of a cluster other than a kill in the middle of training.

Processes that are stopped and continue, a clock that is wrong, parameter servers that come up last,
another number of workers, and kills of all processes in each phase of a save. With -s, a line is
printed for each.
"""

import os
import signal
import threading
from pathlib import Path

import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow

TRAINER = Path(__file__).with_name("trainer.py")
ROOT = Path(__file__).resolve().parents[2]
STOP_SECS = 30
STEPS = 100


def last_checkpoint(folder):
    return tf.train.load_checkpoint(str(folder))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_processes_that_are_stopped_for_a_while(mode, cluster, journal, tmp_path, faulty):
    def stop(task):
        def send(number):
            return lambda: os.killpg(supervisor.pid(task), number)

        name = f"{task.split()[0]} stopped by SIGSTOP"
        return faulty.Fault(name, STOP_SECS, send(signal.SIGSTOP), send(signal.SIGCONT))

    faults = [stop(t) for t in (faulty.WORKER, faulty.CHIEF, faulty.PS, faulty.EVALUATOR)]
    steps = faulty.steps_for(len(faults))
    supervisor = cluster(TRAINER, mode, tmp_path, steps, faulty.PHASE)
    with faulty.Faults("process", mode, faults, tmp_path, seed=3) as made:
        journal.react = made
        assert supervisor.run() == 0
    assert [effect.ended for effect in made.effects] == [0] * len(faults)
    assert max(effect.back for effect in made.effects) < STOP_SECS
    faulty.check_weights(mode, last_checkpoint(tmp_path), steps, losses=0)
    if mode == "async":
        chief_steps, _ = made.effects[0].steps
        assert chief_steps >= 8, "the chief reaches its gate without the worker"
        assert made.effects[1].steps[1] >= 8, "the worker reaches its gate without the chief"
    assert journal.of(faulty.EVALUATOR)[-1].startswith("evaluated ")


@pytest.mark.timeout(200)
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_whose_clock_is_wrong(hours, cluster, journal, tmp_path, faulty):
    patch = tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(
        "import os, time\n"
        "if '\"type\": \"worker\"' in os.environ.get('TF_CONFIG', ''):\n"
        "    right = time.time\n"
        f"    time.time = lambda: right() + 3600 * {hours}\n"
        f"    print('clock off by', round(time.time() - right()), 's', flush=True)\n"
    )
    supervisor = cluster(
        TRAINER,
        "sync",
        tmp_path / "model",
        STEPS,
        STEPS,
        environment={"PYTHONPATH": f"{patch}:{ROOT}"},
    )
    assert supervisor.run() == 0
    assert f"clock off by {3600 * hours} s" in journal.of(faulty.WORKER)
    faulty.check_weights("sync", last_checkpoint(tmp_path / "model"), STEPS, losses=0)
    print(f"process     | a worker's clock off by {hours:+} h: {STEPS} steps, NumPy's weights")


@pytest.mark.timeout(200)
def test_parameter_servers_that_come_up_last(cluster, journal, tmp_path, faulty):
    away = [tmp_path / f"away-ps-{index}" for index in (0, 1)]
    for path in away:
        path.touch()
    imported = set()
    timer = threading.Timer(10, lambda: [path.unlink() for path in away])

    def look(name, text):
        if text == "imported":
            imported.add(name)
            if len(imported) == 5:
                timer.start()

    journal.react = look
    assert cluster(TRAINER, "sync", tmp_path, STEPS, STEPS, ps=2).run() == 0
    timer.join()
    faulty.check_weights("sync", last_checkpoint(tmp_path), STEPS, losses=0)
    print(f"process     | parameter servers 10 s after all others: {STEPS} steps, NumPy's weights")


@pytest.mark.timeout(300)
def test_another_number_of_workers_after_a_restart(cluster, tmp_path, faulty):
    for part, workers in enumerate((2, 3, 1), start=1):
        supervisor = cluster(
            TRAINER, "sync", tmp_path, part * STEPS, 3 * STEPS, workers=workers, evaluator=False
        )
        assert supervisor.run() == 0
        faulty.check_weights("sync", last_checkpoint(tmp_path), part * STEPS, losses=0)
    print("process     | 2, 3 and 1 workers, 100 steps each: NumPy's weights after each")


STOP_IN_SAVE = """
import os, runpy, sys, time
import tensorflow as tf

PHASES = {20: "data", 40: "index", 60: "state", 80: "note"}
save, folder = tf.compat.v1.train.Saver.save, sys.argv[2]

def save_up_to_a_phase(self, session, path, global_step=None, **settings):
    phase = PHASES.get(global_step)
    marker = os.path.join(folder, f"stopped-{phase}")
    if phase is None or os.path.exists(marker):
        return save(self, session, path, global_step=global_step, **settings)
    open(marker, "w").close()
    if phase != "data":
        settings["write_state"] = phase == "note"
        save(self, session, path, global_step=global_step, **settings)
    if phase == "index":
        os.remove(f"{path}-{global_step}.index")
    print(f"stopped before {phase}", flush=True)
    time.sleep(600)

tf.compat.v1.train.Saver.save = save_up_to_a_phase
sys.path.insert(0, os.path.dirname(os.environ["TRAINER"]))
sys.argv[0] = os.environ["TRAINER"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.timeout(400)
def test_all_are_killed_in_each_phase_of_a_save(cluster, journal, tmp_path, faulty):
    tasks = (faulty.CHIEF, faulty.WORKER, faulty.PS)
    stopped = []

    def look(name, text):
        word, _, phase = text.partition(" before ")
        if name == faulty.CHIEF and word == "stopped":
            stopped.append(phase)
            for pid in [supervisor.pid(task) for task in tasks]:
                os.killpg(pid, signal.SIGKILL)

    journal.react = look
    supervisor = cluster(
        "-c",
        STOP_IN_SAVE,
        "sync",
        tmp_path,
        STEPS,
        STEPS,
        evaluator=False,
        restarts=6,
        environment={"TRAINER": str(TRAINER)},
    )
    assert supervisor.run() == 0
    assert stopped == ["data", "index", "state", "note"]
    faulty.check_weights("sync", last_checkpoint(tmp_path), STEPS, losses=0)
    assert not list(tmp_path.glob("checkpoint.*saving*")), "every note is withdrawn"
    listed = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert sorted(f"{path}.index" for path in listed) == sorted(map(str, tmp_path.glob("*.index")))
    print("process     | all killed before data, index, state file and note: NumPy's weights")
