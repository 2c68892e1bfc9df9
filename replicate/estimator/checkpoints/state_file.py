"""State file: the file `checkpoint`, which lists the checkpoints of a model directory.

Owns its text, which TensorFlow reads: paths relative to the directory, so that this may be moved.
The first line is a comment with the number of the writer's lease. `fallback.py` reads the list.
"""

import re
from collections.abc import Sequence

import tensorflow as tf

from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir

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
