"""Leases of a model directory: their folders, their renewal and their loss."""

import os
import threading
import time

import pytest

from replicate.errors import ModelDirInUseError
from replicate.estimator.lease import writer_lease
from replicate.estimator.lease.lease_folder import (
    local_path,
    make_folder,
    newest_number,
    read_content,
    remove_folder,
    remove_older,
    write_content,
)
from replicate.estimator.lease.process_identity import ProcessIdentity, this_process
from replicate.estimator.lease.writer_lease import LeaseRecord, WriterLease, parse_record


@pytest.fixture(autouse=True)
def _quick_renewals(monkeypatch):
    monkeypatch.setattr(writer_lease, "RENEW_SECS", 0.01)


@pytest.fixture
def lease(tmp_path):
    record = LeaseRecord(1, "mine", this_process())
    make_folder(str(tmp_path), 1, record.content())
    made = WriterLease(str(tmp_path), str(tmp_path), record)
    yield made
    made.release()


def record_in(tmp_path, number=1):
    return parse_record(read_content(str(tmp_path), number))


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def take_over(tmp_path):
    later = LeaseRecord(2, "theirs", ProcessIdentity("node9", 77), "2026-11-21 10:00:00 UTC", 0, 3)
    make_folder(str(tmp_path), 2, later.content())
    remove_folder(str(tmp_path), 1)


def test_a_lease_is_renewed_and_released(lease, tmp_path):
    wait_for(lambda: (found := record_in(tmp_path)) is not None and found.renewals >= 3)
    lease.check()
    (tmp_path / "writer-1.lease" / "saving" / "part").write_text("")
    lease.release()
    assert record_in(tmp_path).is_released
    assert os.listdir(lease.folder) == []
    assert "writer lease" not in [thread.name for thread in threading.enumerate()]


def test_the_renewing_thread_notices_that_another_process_took_over(lease, tmp_path):
    lease.check_notice()
    take_over(tmp_path)
    wait_for(lambda: lease.is_lost)
    message = (
        r"saves nothing more: process 77 on host node9 \(lease 2, taken 2026-11-21 10:00:00 UTC .* "
        r"held for 3 s\) has taken over model_dir '.*'\. To continue here, end that process"
    )
    with pytest.raises(ModelDirInUseError, match=message):
        lease.check_notice()


def test_a_check_notices_it_without_the_thread(lease, tmp_path):
    lease.release()
    take_over(tmp_path)
    assert not lease.is_lost
    with pytest.raises(ModelDirInUseError):
        lease.check()
    lease.release()
    assert not record_in(tmp_path, 2).is_released


def test_another_lease_of_the_same_number_is_noticed(lease, tmp_path):
    lease.release()
    remove_folder(str(tmp_path), 1)
    make_folder(str(tmp_path), 1, LeaseRecord(1, "theirs", this_process()).content())
    with pytest.raises(ModelDirInUseError, match="another process has taken over"):
        lease.check()


def test_a_fork_of_the_holder_releases_nothing(lease, tmp_path):
    pid = os.fork()
    if pid == 0:
        lease.release()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert not record_in(tmp_path).is_released


def test_a_failed_renewal_is_tried_again(lease, tmp_path, monkeypatch, own_log):
    failures = []

    def fail(*arguments):
        if len(failures) < 3:
            failures.append(arguments)
            raise OSError("No space left on device")
        write_content(*arguments)

    monkeypatch.setattr(writer_lease, "write_content", fail)
    wait_for(lambda: len(failures) == 3)
    before = record_in(tmp_path).renewals
    wait_for(lambda: (found := record_in(tmp_path)) is not None and found.renewals > before)
    lease.check()
    assert own_log.text.count("cannot be renewed: No space left on device") == 1


@pytest.fixture
def path(tmp_path):
    return str(tmp_path)


def test_mounted_directories_are_local(tmp_path):
    assert local_path(f"{tmp_path}/") == f"{tmp_path}/"
    assert local_path(f"file://{tmp_path}") == str(tmp_path)
    assert local_path("gs://bucket/model") is None
    assert local_path(f"{tmp_path}/absent") is None


def test_numbers_are_found_by_name_only(path):
    assert newest_number(path) == 0
    for name in ("writer-3", "writer-10", "my-writer-98"):
        os.mkdir(f"{path}/{name}.lease")
    os.mkdir(f"{path}/writer-99.lease.old-0")
    assert newest_number(path) == 10


def test_content_is_overwritten_in_its_place_until_the_lease_is_removed(path):
    make_folder(path, 1, b"longer")
    inode = os.stat(f"{path}/writer-1.lease/lease").st_ino
    write_content(path, 1, b"short")
    assert read_content(path, 1) == b"short"
    assert os.stat(f"{path}/writer-1.lease/lease").st_ino == inode
    assert read_content(path, 2) is None
    remove_folder(path, 1)
    remove_folder(path, 1)
    with pytest.raises(FileNotFoundError):
        write_content(path, 1, b"y")
    assert os.listdir(path) == []


def test_older_leases_and_left_over_folders_are_removed(path, tmp_path):
    for number in (1, 2, 3, 4):
        make_folder(path, number, b"x")
    (tmp_path / f"writer-2.lease.new-{'0' * 32}" / "saving").mkdir(parents=True)
    (tmp_path / f"writer-2.lease.old-{'1' * 32}").mkdir()
    (tmp_path / "writer-2.lease.of-mine").mkdir()
    remove_older(path, 3)
    left = ["writer-2.lease.of-mine", "writer-3.lease", "writer-4.lease"]
    assert sorted(os.listdir(path)) == left
