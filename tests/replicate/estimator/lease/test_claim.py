"""Claims of a model directory, and the holder: its record, and the identity of its process."""

import dataclasses
import os
import subprocess
import time

import pytest

from replicate.errors import ModelDirInUseError
from replicate.estimator.lease import claim, writer_lease
from replicate.estimator.lease.claim import LeaseObserver, claim_lease, is_held
from replicate.estimator.lease.lease_folder import make_folder, newest_number, write_content
from replicate.estimator.lease.process_identity import ProcessIdentity, has_ended, this_process
from replicate.estimator.lease.writer_lease import LeaseRecord, parse_record

ELSEWHERE = this_process()._replace(host="node9", boot="of node9")
RECORD = LeaseRecord(
    7, "abc", ProcessIdentity("node5", 123, "b", "n", "99"), "2026-11-21 10:00:00 UTC", 4, 8
)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path)


@pytest.fixture
def hold(path):
    """Makes a lease that nobody renews, and returns its record."""

    def make(number=1, **fields):
        record = LeaseRecord(number, "theirs", **{"holder": ELSEWHERE, **fields})
        assert make_folder(path, number, record.content())
        return record

    return make


def claimed(path, **arguments):
    """Claims, releases at once, and returns the number and the seconds that it took."""
    begin = time.monotonic()
    lease = claim_lease(path, **arguments)
    lease.release()
    return lease.number, time.monotonic() - begin


def test_numbers_rise(path):
    assert [claimed(path)[0] for _ in range(3)] == [1, 2, 3]
    assert os.listdir(path) == ["writer-3.lease"]
    assert claimed(path, above=10)[0] == 11
    assert not is_held(path)
    assert claim_lease("gs://bucket/model") is None, "a file system of TensorFlow"
    assert not is_held("gs://bucket/model")


def test_a_lease_of_a_dead_process_is_taken_at_once(path, hold):
    hold(holder=this_process()._replace(started="1"))
    number, secs = claimed(path)
    assert number == 2
    assert secs < claim.SILENCE_SECS / 2


def test_a_living_holder_in_this_process_is_named(path, monkeypatch):
    monkeypatch.setattr(writer_lease, "RENEW_SECS", 0.1)
    holder = claim_lease(path)
    assert is_held(path)
    text = (
        rf"process {os.getpid()} on host .*lease 1, taken 20.* UTC by the clock of that host, held "
        r"for \d+ s\) trains there.*RunConfig\(steal_model_dir=True\)"
    )
    with pytest.raises(ModelDirInUseError, match=text):
        claim_lease(path)
    holder.check()
    thief = claim_lease(path, steal=True)
    with pytest.raises(ModelDirInUseError, match=f"process {os.getpid()} on host .*has taken over"):
        holder.check()
    holder.release()
    thief.check()
    thief.release()
    assert claimed(path)[0] == 3


def test_a_silent_lease_of_another_host_is_waited_for_and_taken(path, hold, monkeypatch, own_log):
    monkeypatch.setattr(claim, "SILENCE_SECS", 0.5)
    monkeypatch.setattr(claim, "_LATE_SECS", 0.1)
    hold(number=4)
    number, secs = claimed(path)
    assert number == 5
    assert secs >= 0.5
    assert own_log.text.count("Waiting for model_dir") == 1
    assert "on host node9 (lease 4" in own_log.text


def test_a_claim_that_comes_late_gives_its_number_back(path, hold):
    hold(number=3)
    assert not claim._take(path, LeaseRecord(2, "late", this_process()))
    assert not claim._take(path, LeaseRecord(3, "second", this_process())), "it is taken"
    assert os.listdir(path) == ["writer-3.lease"]


def test_the_time_in_which_an_observer_was_stopped_does_not_count(linear, path):
    clock = linear.Clock()
    observer = LeaseObserver(path, clock.monotonic)
    assert not observer.has_run_out(1, b"same")
    clock.now += 3600
    assert not observer.has_run_out(1, b"same")
    clock.now += 9
    looks = 0
    while not observer.has_run_out(1, b"same"):
        clock.now += 0.5
        looks += 1
    assert looks == pytest.approx((claim.SILENCE_SECS - 2) / 0.5, abs=1)
    assert not observer.has_run_out(2, b"same"), "a new holder is observed anew"
    clock.now += 1
    assert not observer.has_run_out(2, b"same")


def test_only_a_renewed_record_refuses_whatever_the_clock_of_the_holder(path, hold):
    content = hold(since="1999-01-01 00:00:00 UTC").content()
    observer = LeaseObserver(path)
    assert not observer.has_run_out(1, content)
    assert not observer.has_run_out(1, content[:20]), "it is just being written"
    renewed = LeaseRecord(1, "theirs", ELSEWHERE, "2099-01-01 00:00:00 UTC", 1)
    write_content(path, 1, renewed.content())
    with pytest.raises(ModelDirInUseError, match="2099"):
        observer.has_run_out(1, claim.read_content(path, 1))
    assert newest_number(path) == 1


def test_a_record_is_read_as_it_was_written_and_describes_the_holder():
    for record in (RECORD, dataclasses.replace(RECORD, is_released=True)):
        assert parse_record(record.content()) == record
    for part in (None, b"", RECORD.content()[:-5], b"[]", b"{}", b"\xff"):
        assert parse_record(part) is None
    assert RECORD.describe() == (
        "process 123 on host node5 (lease 7, taken 2026-11-21 10:00:00 UTC by the clock of that "
        "host, held for 8 s)"
    )


def identity(pid):
    """Identity of another process on this host."""
    with open(f"/proc/{pid}/stat") as file:
        return this_process()._replace(pid=pid, started=file.read().rpartition(")")[2].split()[19])


def test_a_killed_process_has_ended_before_and_after_its_parent_asks_for_it():
    assert this_process() == identity(os.getpid())
    assert not has_ended(this_process())
    with subprocess.Popen(["sleep", "60"]) as child:
        found = identity(child.pid)
        assert not has_ended(found)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(found)
        child.wait()
    assert has_ended(found)
    for elsewhere in (
        {"boot": "another"},
        {"namespace": "pid:[1]"},
        {"boot": "", "namespace": ""},
        {"started": ""},
    ):
        assert not has_ended(found._replace(**elsewhere)), "nothing is known of it"
