import os
import subprocess

import pytest

from replicate.estimator.lease.process_identity import has_ended, this_process


def identity(pid):
    """Identity of another process on this host."""
    with open(f"/proc/{pid}/stat") as file:
        return this_process()._replace(pid=pid, started=file.read().rpartition(")")[2].split()[19])


def test_the_calling_process_runs():
    assert this_process() == identity(os.getpid())
    assert not has_ended(this_process())


def test_a_killed_process_has_ended_before_and_after_its_parent_asks_for_it():
    with subprocess.Popen(["sleep", "60"]) as child:
        found = identity(child.pid)
        assert not has_ended(found)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(found)
        child.wait()
    assert has_ended(found)


def test_a_later_process_of_the_same_number_is_another_one():
    assert has_ended(this_process()._replace(started="1"))


@pytest.mark.parametrize(
    "elsewhere",
    [{"boot": "another"}, {"namespace": "pid:[1]"}, {"boot": "", "namespace": ""}, {"started": ""}],
)
def test_nothing_is_known_of_processes_elsewhere(elsewhere):
    assert not has_ended(this_process()._replace(pid=2**22 + 1, **elsewhere))
