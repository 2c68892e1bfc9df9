"""Programs and launch lines of guides that promise to survive a kill, with the kill.

Each program is that of the guide, and each line is given to the launcher as it stands, but for the
number of workers: two.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from replicate.launch import __main__ as command_line
from replicate.launch.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "howto"
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINE = re.compile(r"python -m replicate\.launch (.* --restart .*-- .*)")


class Kills:
    """Kills tasks, each at a line of a task."""

    def __init__(self, *plan):
        """Takes (line, task of the line, task to kill); a number stands for larger ones, too.

        A chief that finds the variables of a server trained needs not save its first step.
        """
        self.supervisor = None
        self.left = list(plan)

    def __call__(self, name, text):
        due = next((each for each in self.left if is_at(each, name, text)), None)
        pid = None if due is None else self.supervisor.pid(due[2])
        if pid is not None:
            self.left.remove(due)
            os.killpg(pid, signal.SIGKILL)


def is_at(kill, name, text):
    """Returns True if a line of a task is that of a kill."""
    line, task, _ = kill
    if name != task or text == line:
        return name == task
    found, wanted = (re.fullmatch(r"(step|saving) (\d+)", each) for each in (text, line))
    if found is None or wanted is None:
        return False
    return found[1] == wanted[1] and int(found[2]) >= int(wanted[2])


@pytest.fixture
def launch(journal, fork_backend, monkeypatch, tmp_path):
    """Runs a line of a guide in a folder with the program that the guide calls `train.py`.

    Returns the exit code of the launcher.
    """

    def run(guide, kills, line=None):
        text = (GUIDES / guide).read_text()
        (tmp_path / "train.py").write_text(PROGRAM.search(text)[1])
        prelude = Path(__file__).with_name("reporting.py").read_text()

        def supervise(*args, **settings):
            backend = fork_backend(prelude)
            kills.supervisor = Supervisor(*args, **settings, backend=backend, max_delay_secs=0.2)
            return kills.supervisor

        monkeypatch.setattr(command_line, "Supervisor", supervise)
        monkeypatch.setattr(command_line, "Console", lambda *_: journal)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.chdir(tmp_path)
        journal.react = kills
        told = line or LINE.search(text)[1].replace("--workers=4", "--workers=2")
        return command_line.main(told.split())

    return run


CODES = re.compile(r"has ended with exit code (\d+)")


def codes(journal):
    """Returns the exit codes of all processes that have ended."""
    return [int(code) for text in journal.of("launch") for code in CODES.findall(text)]


@pytest.mark.broad
@pytest.mark.timeout(120)
def test_all_reduce_survives_the_kill_of_a_worker(launch, journal):
    """The program compares the weights that it has in the end."""
    kills = Kills(("step 20", "worker 0", "worker 0"))
    assert launch("all_reduce.md", kills) == 0
    assert not kills.left
    assert sorted(codes(journal)) == [0, 0, 0, 137, 138]


@pytest.mark.broad
@pytest.mark.timeout(120)
def test_keras_survives_the_kill_of_a_worker(launch, journal):
    kills = Kills(("Epoch 4/12", "chief 0", "worker 0"))
    assert launch("keras_workers.md", kills) == 0
    assert not kills.left
    assert sorted(codes(journal)) == [0, 0, 137, 138]
    begun = [text for text in journal.of("chief 0") if text.startswith("Epoch")]
    assert begun.count("Epoch 1/12") == 1  # It went on from the backup.


LAUNCH = "--workers=2 {} --evaluator --restart=20 -- python train.py"
SOME = [
    ("begun", "worker 0", "worker 0"),
    ("building", "chief 0", "ps 0"),
    ("step 20", "chief 0", "chief 0"),
    ("saving 20", "chief 0", "ps 0"),
    ("evaluating", "evaluator 0", "evaluator 0"),
]
PLACES = [
    ("building", "worker 0", "worker 0"),
    ("building", "chief 0", "chief 0"),
    ("begun", "worker 0", "worker 0"),
    ("saving 0", "chief 0", "worker 0"),
    ("begun", "chief 0", "chief 0"),
    ("step 20", "worker 0", "worker 0"),
    ("step 40", "chief 0", "chief 0"),
    ("saving 150", "chief 0", "chief 0"),
    ("evaluating", "evaluator 0", "evaluator 0"),
]
OF_SERVER = [(place, "chief 0", "ps 0") for place in ("building", "step 60", "saving 150")]


@pytest.mark.broad
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("guide", "flag", "places"),
    [
        ("parameter_servers.md", "--ps=1", SOME),
        pytest.param(
            "parameter_servers.md", "--ps=1", [*OF_SERVER, *PLACES], marks=pytest.mark.slow
        ),
        pytest.param("all_reduce.md", "--all_reduce", PLACES, marks=pytest.mark.slow),
        pytest.param(
            "model_average.md",
            "--ps=1",
            [
                ("step 2", "worker 0", "worker 0"),
                ("step 4", "chief 0", "chief 0"),
                ("step 6", "chief 0", "ps 0"),
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_task_may_be_killed_at_the_start_in_a_step_and_in_a_save(
    launch, journal, guide, flag, places
):
    kills = Kills(*places)
    assert launch(guide, kills, LAUNCH.format(flag)) == 0
    assert not kills.left
    assert set(codes(journal)) <= {0, 137, 138}


def line_of_a_local_cluster():
    text = (GUIDES / "local_cluster.md").read_text()
    return re.search(r"python -m replicate\.launch (.*examples\.convnet.*)", text)[1]


def line_of_slurm():
    """The command of the script for SLURM and of the manifests, in fewer steps."""
    text = (ROOT / "examples" / "cluster" / "slurm.sh").read_text()
    options = re.search(r"--model_dir=.*--progress=log", text)[0].replace("=1000", "=60")
    return f"--workers=2 --all_reduce -- python -m examples.convnet --mode=all_reduce {options}"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("line", [line_of_a_local_cluster, line_of_slurm])
def test_examples_survive_the_kill_of_a_worker(launch, journal, line):
    kills = Kills(("step 30", "chief 0", "worker 0"))
    assert launch("all_reduce.md", kills, f"--restart {line()}") == 0
    assert not kills.left
    assert set(codes(journal)) <= {0, 137, 138}
