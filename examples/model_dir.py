"""The model directory of a program, and what it is in use for.

Checkpoints of one model do not fit another. `claim` leaves a note of what the directory is for,
and refuses a run with another purpose while there are checkpoints. Programs call it before they
load anything heavy; the files themselves are TensorFlow's.
"""

import os
from pathlib import Path

_NOTE = "trained_for.txt"


def claim(model_dir: str, purpose: str) -> None:
    """Makes the model directory, unless it is in use for something else.

    The processes of a cluster may do so at the same time.

    Args:
      model_dir: The directory.
      purpose: One line that tells apart runs whose checkpoints do not fit each other.

    Raises:
      ValueError: It is a file, nothing can be written in it, or its checkpoints come from a run
        with another purpose: what they hold would not fit.
    """
    folder = Path(model_dir)
    note = folder / _NOTE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = note.exists() and (folder / "checkpoint").exists()
        earlier = note.read_text() if in_use else purpose
        write_at_once(note, earlier)
    except OSError as error:
        raise ValueError(
            f"--model_dir={model_dir} cannot be written in: {error.filename}: {error.strerror}"
        ) from error
    if earlier != purpose:
        raise ValueError(
            f"--model_dir={model_dir} holds checkpoints of {earlier}, and this run is {purpose}; "
            "take another --model_dir, or delete that one"
        )


def write_at_once(path: Path, text: str) -> None:
    """Writes a file at once: whoever reads it meanwhile sees all of the old or all of the new."""
    staged = path.with_name(f"{path.name}.{os.getpid()}")
    staged.write_text(text)
    staged.replace(path)
