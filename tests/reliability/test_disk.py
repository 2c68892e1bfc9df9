"""Disks with faults: real ones, made by the operating system, under a training process of its own.

A disk is a file system in a mount namespace of its own, which ends with the test. Everything is
looked at through /proc. With -s, a line is printed for each fault.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[2]
TRAINER = Path(__file__).with_name("disk_trainer.py")
PATIENCE_SECS = 120
MEBIBYTE = 1 << 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Disk:
    """A file system that only its own processes see.

    Attributes:
      folder: Its path for these processes.
      seen: Its path for everybody.
    """

    def __init__(self, folder, mount):
        self.folder = folder
        folder.mkdir()
        script = f"{mount} && echo ready && read _"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._holder.stdout.readline() != "ready\n":
            reason = self._holder.stderr.read().strip()
            self.close()
            pytest.skip(f"mounting is not permitted here: {reason}")
        self.seen = Path(f"/proc/{self._holder.pid}/root{folder}")
        self.enter = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt"]

    def run(self, *command):
        subprocess.run([*self.enter, *map(str, command)], check=True, capture_output=True)

    def fill(self, left):
        """Takes all free space but some bytes."""
        stat = os.statvfs(self.seen)
        with open(self.seen / "ballast", "wb") as file:
            file.write(bytes(stat.f_bfree * stat.f_frsize - left))

    def close(self):
        self._holder.communicate()


@pytest.fixture
def mount(tmp_path):
    """Mounts a file system; the command has {folder} in it, and {image} for a file."""
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("needs unshare and nsenter, of util-linux")
    disks = []

    def make(command):
        folder = tmp_path / "disk"
        disks.append(Disk(folder, command.format(folder=folder, image=tmp_path / "image")))
        return disks[-1]

    yield make
    for disk in disks:
        disk.close()


class Trainer:
    """A training process."""

    def __init__(self, folder, gates, *flags, enter=()):
        gates.mkdir(exist_ok=True)
        self._gates = gates
        self._log = gates / f"log-{len(list(gates.iterdir()))}"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*enter, sys.executable, str(TRAINER), str(folder), str(gates), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
                cwd=gates,
            )

    @property
    def lines(self):
        return self._log.read_text().splitlines()

    def wait_for(self, line):
        deadline = time.monotonic() + PATIENCE_SECS
        while line not in self.lines:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def open_gates(self, *steps):
        for step in steps:
            (self._gates / f"go-{step}").touch()

    def send(self, number):
        self._process.send_signal(number)

    def end(self):
        """Returns the exit code, and the lines of errors."""
        code = self._process.wait(PATIENCE_SECS)
        print("\n".join(self.lines))
        assert not any("Traceback" in line for line in self.lines), self._log.read_text()
        return code, [line for line in self.lines if line.startswith("error: ")]

    def close(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture
def train(tmp_path):
    """Starts a training process."""
    trainers = []

    def start(folder, *flags, disk=None):
        enter = () if disk is None else disk.enter
        trainers.append(Trainer(folder, tmp_path / "gates", *flags, enter=enter))
        return trainers[-1]

    yield start
    for trainer in trainers:
        trainer.close()


def check_checkpoint(folder, step):
    """The newest checkpoint is whole, and is that of a step."""
    newest = tf.train.latest_checkpoint(str(folder))
    assert Path(newest).name == f"model.ckpt-{step}"
    reader = tf.train.load_checkpoint(newest)
    assert int(reader.get_tensor("global_step")) == step
    assert set(reader.get_tensor("weights")) == {float(step)}


def check_stop(trainer, text):
    """Training ended with one line and exit code 2."""
    code, errors = trainer.end()
    print(f"fault       | {errors}")
    assert code == 2
    [line] = errors
    assert re.search(text, line), line


def check_continues(train, folder, disk=None):
    """Another start continues, and ends well."""
    trainer = train(folder, disk=disk)
    trainer.open_gates(15, 25, 35)
    assert trainer.end() == (0, [])
    assert "done" in trainer.lines
    check_checkpoint(folder if disk is None else disk.seen, 40)


def begin(train, folder, *flags, disk=None):
    """Trains up to step 15, after the checkpoint of step 10."""
    trainer = train(folder, *flags, disk=disk)
    trainer.wait_for("step 15")
    return trainer


TMPFS = "mount -t tmpfs -o size=8m none {folder}"
EXT4 = (
    "truncate -s 24M {image} && mkfs.ext4 -q -m 0 {image}"
    " && mount -o loop,errors=remount-ro {image} {folder}"
)


@pytest.mark.parametrize("left", [MEBIBYTE // 2, 0])
def test_full_disk(mount, train, left):
    disk = mount(TMPFS)
    trainer = begin(train, disk.folder, disk=disk)
    disk.fill(left)
    trainer.open_gates(15)
    check_stop(trainer, r"model.ckpt-20: it needs [\d,]+ bytes, and .* has [\d,]+ bytes free")
    check_checkpoint(disk.seen, 10)
    (disk.seen / "ballast").unlink()
    check_continues(train, disk.folder, disk)


def test_disk_that_fills_up_while_a_checkpoint_is_written(mount, train):
    disk = mount(TMPFS)
    trainer = begin(train, disk.folder, "--slow_secs=1", disk=disk)
    trainer.open_gates(15)
    trainer.wait_for("step 20")
    while trainer.lines[-1] != "saving":
        time.sleep(0.01)
    disk.fill(MEBIBYTE // 2)
    check_stop(trainer, r"model.ckpt-20: .*No space left on device \([\d,]+ bytes free\)")
    check_checkpoint(disk.seen, 10)
    assert not list(disk.seen.glob("model.ckpt-20*"))
    assert not (disk.seen / "checkpoint.saving").exists()


def test_limit_of_a_file(train, tmp_path):
    trainer = train(tmp_path / "run", "--largest_file=500000")
    check_stop(trainer, r"model.ckpt-0: .*File too large")
    assert not list((tmp_path / "run").glob("model.ckpt-0*"))
    check_continues(train, tmp_path / "run")


def test_directory_that_must_not_change(train, tmp_path):
    folder = tmp_path / "run"
    trainer = begin(train, folder)
    made = subprocess.run(["chattr", "+i", folder], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no file can be made immutable here: {made.stderr.strip()}")
    try:
        trainer.open_gates(15)
        check_stop(trainer, "model.ckpt-20: .*Operation not permitted")
        check_checkpoint(folder, 10)
    finally:
        subprocess.run(["chattr", "-i", folder], check=True)
    check_continues(train, folder)


@pytest.mark.parametrize(
    "name", ["checkpoint.saving", "model.ckpt-20.index", "model.ckpt-20.data-00000-of-00001"]
)
def test_names_that_are_taken_by_directories(train, tmp_path, name):
    folder = tmp_path / "run"
    trainer = begin(train, folder)
    (folder / name / "a").mkdir(parents=True)
    trainer.open_gates(15)
    check_stop(trainer, r"model.ckpt-20: .*(Is a directory|Directory not empty)")
    check_checkpoint(folder, 10)
    shutil.rmtree(folder / name)
    check_continues(train, folder)


@pytest.mark.parametrize(("replaced", "mode"), [(False, "retry"), (True, "stop")])
def test_directory_that_goes_away(train, tmp_path, replaced, mode):
    folder = tmp_path / "run"
    trainer = begin(train, folder, "--steps=20", f"--on_save_error={mode}")
    folder.rename(tmp_path / "away")
    if replaced:
        folder.write_text("")
    trainer.open_gates(15)
    check_stop(trainer, f"{folder} was removed or replaced while training ran")
    check_checkpoint(tmp_path / "away", 10)
    assert folder.is_file() == replaced
    folder.unlink(missing_ok=True)
    (tmp_path / "away").rename(folder)
    check_continues(train, folder)


def test_disk_that_turns_read_only(mount, train):
    disk = mount(EXT4)
    trainer = begin(train, disk.folder, "--steps=30", "--on_save_error=retry", disk=disk)
    disk.run("mount", "-o", "remount,abort", disk.folder)
    trainer.open_gates(15, 25)
    check_stop(trainer, "model.ckpt-30: .*Read-only file system")
    warnings = [line for line in trainer.lines if "cannot be written" in line]
    for name in ("metrics.jsonl", "events.out.tfevents.*"):
        assert sum(f"{disk.folder}/{name} cannot" in line for line in warnings) == 1, name
    check_checkpoint(disk.seen, 10)


def test_export_that_does_not_fit(mount, train):
    disk = mount("mount -t tmpfs -o size=3000k none {folder}")
    trainer = train(disk.folder, "--export", disk=disk)
    check_stop(trainer, r"export/latest: .*No space left on device\. There is no new export")
    check_checkpoint(disk.seen, 10)
    assert not list((disk.seen / "export" / "latest").glob("temp-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_slow_disk_and_a_signal_while_it_writes(train, tmp_path, number):
    folder = tmp_path / "run"
    trainer = begin(train, folder, "--slow_secs=1")
    trainer.open_gates(15)
    trainer.wait_for("step 20")
    while trainer.lines[-1] != "saving":
        time.sleep(0.01)
    trainer.send(number)
    code, errors = trainer.end()
    assert (code, errors) == (143 if number == signal.SIGTERM else -number, [])
    check_checkpoint(folder, 20 if number == signal.SIGTERM else 10)
    check_continues(train, folder)
