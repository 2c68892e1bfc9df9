"""The holder of a lease: its record, and the identity of its process."""

import dataclasses
import os
import subprocess

import pytest

from replicate.estimator.lease.lease_record import LeaseRecord, parse_record
from replicate.estimator.lease.process_identity import ProcessIdentity, has_ended, this_process

RECORD = LeaseRecord(
    7, "abc", ProcessIdentity("node5", 123, "b", "n", "99"), "2026-11-21 10:00:00 UTC", 4, 8
)


def test_a_record_is_read_as_it_was_written():
    assert parse_record(RECORD.content()) == RECORD
    released = dataclasses.replace(RECORD, is_released=True)
    assert parse_record(released.content()) == released


@pytest.mark.parametrize("content", [None, b"", RECORD.content()[:-5], b"[]", b"{}", b"\xff"])
def test_a_part_of_a_record_is_none(content):
    assert parse_record(content) is None


def test_the_description_names_the_holder_and_the_age():
    assert RECORD.describe() == (
        "process 123 on host node5 (lease 7, taken 2026-11-21 10:00:00 UTC by the clock of that "
        "host, held for 8 s)"
    )


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
