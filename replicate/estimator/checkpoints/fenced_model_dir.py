"""FencedModelDir: the shared files of a model directory, changed by the holder of its lease only.

Owns the rule that makes a writer harmless after another one took over: each change moves a file out
of or into the folder of the lease. The next writer deletes that folder, and a move from or to a
folder that does not exist fails. So a process that was stopped at any point, even in the middle of
a save, changes nothing when it continues. Without a lease, as on gs://, files are written and
deleted in their place.

The file `checkpoint`, which TensorFlow reads, too, lists the checkpoints of the directory by
relative paths, so that it may be moved. The first line is a comment with the number of the writer's
lease. `fallback.py` reads the list.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import final

import tensorflow as tf

from replicate.estimator.checkpoints.reading import checkpoint_files
from replicate.estimator.files import write_whole
from replicate.estimator.lease.writer_lease import WriterLease

_MOVED = "moved"
"""Name, in the folder of the lease, of a file on its way."""


@final
class FencedModelDir:
    """A model directory, whose files change only while this process is its writer.

    Attributes:
      model_dir: The directory, without a slash at its end.
      writer: Number of the lease, 0 without one.
    """

    def __init__(self, model_dir: str, lease: WriterLease | None = None):
        self.model_dir = model_dir.rstrip("/")
        self.writer = 0 if lease is None else lease.number
        self._lease = lease

    def check(self) -> None:
        """Makes sure that no other process has taken over.

        Raises:
          ModelDirInUseError: One has.
        """
        if self._lease is not None:
            self._lease.check()

    def check_notice(self) -> None:
        """Passes on the news that another process took over, without a system call.

        Raises:
          ModelDirInUseError: One has, and this process has noticed it.
        """
        if self._lease is not None:
            self._lease.check_notice()

    def write(self, name: str, content: str) -> None:
        """Writes a file of the directory whole, over an older one.

        Raises:
          ModelDirInUseError: Another process took over.
          tf.errors.OpError: It cannot be written.
        """
        unfinished = f"{self.model_dir}/checkpoint.tmp_{name}"
        if self._lease is not None:
            unfinished = f"{self._lease.folder}/{_MOVED}"
        with self._fenced():
            write_whole(f"{self.model_dir}/{name}", content, unfinished)

    def move(self, path: str, target: str) -> None:
        """Renames a file of the directory, over an older one of that name.

        Raises:
          ModelDirInUseError: Another process took over.
          tf.errors.OpError: It cannot be renamed.
        """
        with self._fenced():
            if self._lease is not None:
                source, path = path, f"{self._lease.folder}/{_MOVED}"
                tf.io.gfile.rename(source, path, overwrite=True)
            tf.io.gfile.rename(path, target, overwrite=True)

    def remove(self, path: str) -> None:
        """Deletes a file, or a local directory with all in it; does nothing if there is none.

        Raises:
          ModelDirInUseError: Another process took over.
          tf.errors.OpError: It cannot be deleted.
        """
        with contextlib.suppress(tf.errors.NotFoundError), self._fenced():
            if self._lease is not None:
                source, path = path, f"{self._lease.folder}/{_MOVED}"
                tf.io.gfile.rename(source, path, overwrite=True)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                tf.io.gfile.remove(path)

    @contextlib.contextmanager
    def staged(self, checkpoint: str) -> Iterator[str]:
        """Publishes the files of a checkpoint that are written inside the context.

        Readers see no file of the checkpoint before all are complete, and its index last.

        Yields:
          The path to write the checkpoint to.

        Raises:
          ModelDirInUseError: Another process took over.
        """
        if self._lease is None:
            yield checkpoint
            return
        self._lease.clear()
        try:
            with self._fenced():
                yield f"{self._lease.folder}/{checkpoint.rpartition('/')[2]}"
                self._publish(self._lease.folder, checkpoint)
        finally:
            self._lease.clear()

    def _publish(self, folder: str, checkpoint: str) -> None:
        """Moves the files in a folder to their places, in place of an older checkpoint's.

        A directory of such a name is not ours: it stays, and the move fails.
        """
        for path in checkpoint_files(checkpoint):
            if not tf.io.gfile.isdir(path):
                self.remove(path)
        names = sorted(tf.io.gfile.listdir(folder), key=lambda name: (".index" in name, name))
        for name in names:
            tf.io.gfile.rename(f"{folder}/{name}", f"{self.model_dir}/{name}", overwrite=True)

    @contextlib.contextmanager
    def _fenced(self) -> Iterator[None]:
        """Raises ModelDirInUseError in place of an error whose cause is another writer."""
        try:
            yield
        except Exception:
            self.check()
            raise


STATE_FILE = "checkpoint"

_WRITER = re.compile(r"# writer (\d+)")


def write_state(directory: FencedModelDir, checkpoints: Sequence[str]) -> None:
    """Writes the state file. The newest of the checkpoints' paths is the last.

    Raises:
      ModelDirInUseError: Another process took over.
      tf.errors.OpError: It cannot be written.
    """
    names = [path.rpartition("/")[2] for path in checkpoints]
    lines = [f"# writer {directory.writer}"] if directory.writer else []
    lines += [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    directory.write(STATE_FILE, "\n".join(lines) + "\n")


def last_writer(model_dir: str) -> int:
    """Returns the number in the state file, 0 if there is none."""
    try:
        with tf.io.gfile.GFile(f"{model_dir.rstrip('/')}/{STATE_FILE}", "rb") as file:
            found = _WRITER.match(file.read().decode(errors="replace"))
    except tf.errors.OpError:
        return 0
    return int(found[1]) if found else 0
