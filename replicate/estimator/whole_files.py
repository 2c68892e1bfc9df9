"""Files of a model directory that readers see whole: the old content or the new, never a part."""

import tensorflow as tf


def write_whole(path: str, content: str | bytes, unfinished: str) -> None:
    """Writes a file as `unfinished` in its directory, then moves it to its place.

    The unfinished file is left behind if the process dies.

    Raises:
      tf.errors.OpError: It cannot be written or moved.
    """
    with tf.io.gfile.GFile(unfinished, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    tf.io.gfile.rename(unfinished, path, overwrite=True)
