"""Random faults every few seconds, for minutes: training ends, with the right weights.

A seed draws the faults, their order and the pauses between them. The faults of one seed meet a
training at other steps in each run, since time decides that. With -s, a line is printed for each
fault, and a row of a Markdown table for each training. `--minutes=15` makes each of the two
trainings as long, and `--seed` draws other faults.
"""

import collections
import contextlib
import os
import random
import re
import signal
import threading
from pathlib import Path

import pytest
import tensorflow as tf

TRAINER = Path(__file__).parents[1] / "trainer.py"
MINUTES = 2.5
RESTARTS = 100_000
ENDLESS = 10**9
STEPS_PER_MINUTE = 400
ACCURACY = 0.97
TASKS = ["chief 0", "worker 0", "ps 0", "evaluator 0"]
TRAINERS = TASKS[:3]
PAUSE_SECS = (3.0, 10.0)
FAULT_SECS = (1.0, 6.0)
KINDS = ("killed", "all killed", "stopped", "slow", "silent", "cut", "damaged")


class Chaos:
    """Makes faults in a thread until it is told to end; a context manager.

    Attributes:
      made: Number of the faults so far, by their kind, one of `KINDS`.
    """

    def __init__(self, supervisor, plan, condition, folder, seed, secs):
        """Keeps the settings.

        Args:
          supervisor: The cluster.
          plan: Its `ProxiedPlan`.
          condition: Class of the links' conditions.
          folder: The model directory.
          seed: Draws the faults.
          secs: Seconds after which there are no more faults.
        """
        self.made = collections.Counter()
        self._supervisor = supervisor
        self._plan = plan
        self._condition = condition
        self._folder = Path(folder)
        self._draw = random.Random(seed)
        self._secs = secs
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos")
        self._timer = threading.Timer(secs, self._is_over.set)

    def __enter__(self):
        self._timer.start()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._timer.cancel()
        self._is_over.set()
        self._thread.join()

    def wait(self):
        """Waits until there are no more faults."""
        self._thread.join()

    def _run(self):
        partial = [self._kill, self._stop, self._slow, self._silence, self._reset]
        kinds = [*partial, *partial, self._kill_all, self._damage]
        while not self._is_over.wait(self._draw.uniform(*PAUSE_SECS)):
            with self._draw.choice(kinds)() as (kind, text):
                print(f"chaos       | {text}")
                self.made[kind] += 1

    @contextlib.contextmanager
    def _kill(self):
        task = self._draw.choice(TASKS)
        self._signal(task, signal.SIGKILL)
        yield "killed", f"{task} killed"

    @contextlib.contextmanager
    def _kill_all(self):
        for task in TRAINERS:
            self._signal(task, signal.SIGKILL)
        yield "all killed", "chief, worker and parameter server killed"

    @contextlib.contextmanager
    def _stop(self):
        task, secs = self._draw.choice(TASKS), self._draw.uniform(*FAULT_SECS)
        pid = self._supervisor.pid(task)
        self._signal(task, signal.SIGSTOP)
        yield "stopped", f"{task} stopped for {secs:.1f} s"
        self._is_over.wait(secs)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGCONT)

    def _slow(self):
        return self._network("slow", delay_secs=self._draw.choice([0.05, 0.5]))

    def _silence(self):
        silent = self._draw.choice(["out", "back", "both"])
        return self._network("silent", silent=silent, loses=self._draw.random() < 0.5)

    def _reset(self):
        return self._network("cut", resets=True)

    @contextlib.contextmanager
    def _network(self, kind, **condition):
        pair, secs = self._draw.sample(TRAINERS, 2), self._draw.uniform(*FAULT_SECS)
        links = self._plan.between(*pair)
        for link in links:
            link.condition = self._condition(**condition)
        yield kind, f"{' and '.join(pair)}: {kind} for {secs:.1f} s, {condition}"
        self._is_over.wait(secs)
        for link in links:
            link.condition = self._condition()

    @contextlib.contextmanager
    def _damage(self):
        """Flips a byte of the newest checkpoint, if there is an older one, and kills all."""
        place = self._draw.random()
        for task in TRAINERS:
            self._signal(task, signal.SIGKILL)
        found = sorted(self._folder.glob("model.ckpt-*.data-00000-of-?????"), key=os.path.getmtime)
        if len(found) < 2:
            text = "no checkpoint to damage; chief, worker and parameter server killed"
            yield "all killed", text
            return
        content = bytearray(found[-1].read_bytes())
        at = int(place * len(content))
        content[at] ^= 1
        found[-1].write_bytes(content)
        text = f"byte {at} of {found[-1].name} flipped; chief, worker and parameter server killed"
        yield "damaged", text

    def _signal(self, task, number):
        pid = self._supervisor.pid(task)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)


@pytest.fixture
def minutes(request):
    return request.config.getoption("--minutes") or MINUTES


@pytest.fixture
def in_chaos(cluster, proxied_plan, network, seed, minutes):
    """Runs a cluster in chaos, and returns the first cells of its row in the table."""

    def run(name, folder, *arguments, at_end=lambda: None, **settings):
        plan = proxied_plan(evaluator=True)
        supervisor = cluster(*arguments, plan=plan, restarts=RESTARTS, max_delay_secs=2, **settings)
        secs = 60 * minutes
        with Chaos(supervisor, plan, network.Condition, folder, seed, secs) as faults:
            ender = threading.Thread(target=lambda: (faults.wait(), at_end()))
            ender.start()
            code = supervisor.run()
        ender.join()
        assert code == 0
        assert faults.made.total() >= secs / 20
        return [name, seed, f"{minutes:g}", *(faults.made[kind] for kind in KINDS)]

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
