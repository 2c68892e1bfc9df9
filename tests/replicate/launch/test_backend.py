"""A launch with a backend that starts no processes: the seam that another backend would use."""

import os
import signal

from replicate.launch import ProcessPlan, Supervisor, cluster_plan


class FakeProcess:
    """A process that has printed its lines; it ends with `code`, or waits for a signal (None)."""

    pid = None

    def __init__(self, label, lines, code):
        self.label = label
        self.signals = []
        self.killed = self.closed = False
        self._code = code
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        os.write(out, lines.encode())
        os.close(out)
        os.close(err)

    def poll(self):
        return self._code

    def send_signal(self, number):
        self.signals.append(number)
        self._code = 128 + number

    def kill(self):
        self.killed = True

    def close(self):
        os.close(self.stdout)
        os.close(self.stderr)
        self.closed = True


class FakeBackend:
    """A scheduler in memory: exit codes of each task's processes, in order; None waits."""

    def __init__(self, **codes):
        self.codes = codes
        self.plans = []
        self.processes = []
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *error):
        self.entered -= 1

    def start(self, plan):
        assert self.entered == 1
        self.plans.append(plan)
        label = f"job {len(self.plans)}"
        code = self.codes[plan.task.job].pop(0)
        self.processes.append(FakeProcess(label, f"{plan.task} prints\n", code))
        return self.processes[-1]


def supervise(backend, recorder, **settings):
    plan = cluster_plan(2, 1)
    return plan, Supervisor(plan, ["train", "--x"], recorder, backend=backend, **settings)


def test_a_backend_starts_every_task_with_its_tf_config(recorder):
    backend = FakeBackend(chief=[0], worker=[0], ps=[0])
    plan, supervisor = supervise(backend, recorder, environment={"A": "1"}, bar_columns=40)
    assert supervisor.run() == 0
    assert backend.plans == [
        ProcessPlan(
            task,
            ["train", "--x"],
            {"A": "1", "TF_CONFIG": plan.tf_config(task)},
            40 if task.job == "chief" else 0,
        )
        for task in plan.tasks
    ]
    for number, task in enumerate(plan.tasks, start=1):
        assert recorder.of(str(task)) == [f"{task} prints"]
        assert f"{task} at {task.address}: job {number}" in recorder.of("launch")
    assert all(process.killed and process.closed for process in backend.processes)
    assert backend.entered == 0


def test_a_failure_signals_the_other_processes_of_the_backend(recorder):
    backend = FakeBackend(chief=[None], worker=[1], ps=[None])
    _, supervisor = supervise(backend, recorder)
    assert supervisor.run() == 1
    chief, worker, server = backend.processes
    assert (chief.signals, worker.signals, server.signals) == (
        [signal.SIGTERM],
        [],
        [signal.SIGTERM],
    )


def test_a_process_outside_of_this_machine_has_no_pid(recorder):
    backend = FakeBackend(chief=[0], worker=[0], ps=[0])
    _, supervisor = supervise(backend, recorder)
    seen = []
    recorder.react = lambda name, text: seen.append(supervisor.pid("chief 0"))
    assert supervisor.run() == 0
    assert set(seen) == {None}
