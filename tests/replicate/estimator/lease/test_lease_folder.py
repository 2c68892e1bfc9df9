import os
import threading

import pytest

from replicate.estimator.lease.lease_folder import (
    clear_work_folder,
    local_path,
    make_folder,
    newest_number,
    read_content,
    remove_folder,
    remove_older,
    work_folder,
    write_content,
)


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
    for name in (
        "writer-3.lease",
        "writer-10.lease",
        "writer-99.lease.old-0",
        "my-writer-98.lease",
    ):
        os.mkdir(f"{path}/{name}")
    assert newest_number(path) == 10


def test_one_of_many_gets_a_number(path):
    won = []
    barrier = threading.Barrier(8)

    def try_it(name):
        barrier.wait()
        if make_folder(path, 1, name):
            won.append(name)

    threads = [threading.Thread(target=try_it, args=(bytes([i]),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert read_content(path, 1) == won[0]
    assert os.listdir(path) == ["writer-1.lease"]


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
    assert sorted(os.listdir(path)) == [
        "writer-2.lease.of-mine",
        "writer-3.lease",
        "writer-4.lease",
    ]


def test_the_work_folder_is_cleared(path):
    make_folder(path, 1, b"x")
    folder = work_folder(f"{path}/writer-1.lease")
    os.mkdir(f"{folder}/tree")
    open(f"{folder}/tree/file", "w").close()
    open(f"{folder}/file", "w").close()
    clear_work_folder(path, 1)
    assert os.listdir(folder) == []
    clear_work_folder(path, 2)
    assert read_content(path, 1) == b"x"
