"""Small images of digits, and the input pipeline that feeds them to a model_fn.

`load()` returns scikit-learn's bundled handwritten digits (1,797 images of 8x8, no download),
or MNIST itself when it is given the folder of the four IDX files. `input_fn()` turns arrays into
a tf.data pipeline, `load_mnist()` does both for a plain graph. Nothing here knows about models,
towers or devices.

Only NumPy loads at once; scikit-learn and TensorFlow do when they are needed.

Reference: LeCun, Cortes & Burges, "The MNIST database of handwritten digits", section "File
formats" (IDX: two zero bytes, one byte for the type, one for the rank, the dimensions, the data).
"""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CLASSES = 10
_TEST_DIGITS = 360  # one fifth of 1,797, as many of each digit in both parts
_SPLIT_SEED = 0
_NOISE_IMAGES = 1024
_UNSIGNED_BYTE = 0x08
_FILES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}


class Examples(NamedTuple):
    """Images, float32 in [0, 1], [count, height, width, 1]; labels, int32 in [0, 10), [count]."""

    images: np.ndarray
    labels: np.ndarray


class Dataset(NamedTuple):
    """Training set, test set, and a name to print."""

    name: str
    train: Examples
    test: Examples

    @property
    def size(self) -> str:
        """Size of the images, such as "images of 8x8"."""
        height, width = self.train.images.shape[1:3]
        return f"images of {height}x{width}"


def load(data_dir: str | None = None) -> Dataset:
    """Loads MNIST from `data_dir`, or the bundled digits when it is None or empty."""
    return load_idx(data_dir) if data_dir else load_digits()


def load_digits() -> Dataset:
    """Loads scikit-learn's digits of 8x8, split once and for all: 1,437 to train and 360 to test.

    The split has a fixed seed and is stratified by digit.
    """
    from sklearn.datasets import load_digits as bundled_digits  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    digits = bundled_digits()
    train, test = train_test_split(
        np.arange(len(digits.target)),
        test_size=_TEST_DIGITS,
        random_state=_SPLIT_SEED,
        stratify=digits.target,
    )
    images = (digits.images / 16.0).astype(np.float32)[..., np.newaxis]
    labels = digits.target.astype(np.int32)
    return Dataset(
        "handwritten digits (scikit-learn)",
        Examples(images[train], labels[train]),
        Examples(images[test], labels[test]),
    )


def load_idx(data_dir: str) -> Dataset:
    """Loads MNIST's four IDX files, plain or gzipped, from one folder.

    Args:
      data_dir: Folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k-*
        files. Names may end in .gz and may have ".idx" for "-idx".

    Returns:
      A Dataset of images scaled to [0, 1].

    Raises:
      ValueError: Files are missing (all of them are listed), damaged, or do not fit together.
    """
    paths = {part: _find(Path(data_dir), name) for part, name in _FILES.items()}
    missing = [_FILES[part] for part, path in paths.items() if path is None]
    if missing:
        raise ValueError(
            f"Cannot load MNIST: {data_dir} has no {', no '.join(missing)}. Each of the four IDX "
            "files may be plain or .gz; leave data_dir out to use the bundled digits."
        )
    train = _examples(paths["train images"], paths["train labels"])
    test = _examples(paths["test images"], paths["test labels"])
    if train.images.shape[1:] != test.images.shape[1:]:
        raise ValueError(
            f"Cannot load MNIST: {paths['test images']} has images of {test.images.shape[1:3]} "
            f"pixels, expected {train.images.shape[1:3]} as in {paths['train images']}."
        )
    return Dataset(f"IDX files in {data_dir}", train, test)


def read_idx(path: Path, rank: int) -> np.ndarray:
    """Reads one IDX file of unsigned bytes, gunzipped on the way if its name ends in .gz.

    `rank` is the required number of dimensions: 3 for images, 1 for labels.

    Raises:
      ValueError: The file cannot be read, or is not a whole IDX file of that rank.
    """
    try:
        raw = path.read_bytes()
        content = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"Cannot read {path}: {error}. Expected a whole IDX file.") from error
    magic = bytes([0, 0, _UNSIGNED_BYTE, rank])
    if content[:4] != magic:
        raise ValueError(
            f"Cannot read {path}: it starts with 0x{content[:4].hex()}, expected 0x{magic.hex()} "
            f"(IDX, unsigned bytes, rank {rank})."
        )
    header = 4 + 4 * rank
    if len(content) < header:
        raise ValueError(
            f"Cannot read {path}: {len(content)} bytes, expected a {header}-byte head."
        )
    shape = struct.unpack(f">{rank}I", content[4:header])
    expected = header + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise ValueError(
            f"Cannot read {path}: {len(content)} bytes, expected {expected} for shape {shape}. "
            "Is the file truncated?"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def load_mnist(
    data_dir: str | None,
    num_epochs: int | None,
    batch_size: int,
    flatten_images: bool = True,
    use_fake_data: bool = False,
    *,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Returns the tensors of one training batch after the other, in the default graph.

    The signature is that of the loader in K-FAC's tutorials.

    Args:
      data_dir: As in `load`.
      num_epochs: Number of passes over the images. None means no end.
      batch_size: Images in a batch; what does not fill one at the end is left out.
      flatten_images: True: an image is a row of pixels.
      use_fake_data: True: return 1,024 images of noise instead, as large as MNIST's.
      seed: Of the order, and of the noise.

    Returns:
      (images [batch, pixels] or [batch, height, width, 1], labels [batch]).

    Raises:
      ValueError: As in `load_idx`.
    """
    images, labels = training_examples(data_dir, use_fake_data, seed)
    if flatten_images:
        images = images.reshape(len(images), -1)
    return tensors(images, labels, batch_size, num_epochs=num_epochs, seed=seed)


def training_examples(
    data_dir: str | None = None, use_fake_data: bool = False, seed: int = 0
) -> Examples:
    """Returns the training examples of the tutorials.

    With fake data they are 1,024 images of noise, as large as MNIST's.

    Raises:
      ValueError: As in `load_idx`.
    """
    return _noise(seed) if use_fake_data else load(data_dir).train


def tensors(
    images: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    *,
    num_epochs: int | None = None,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Returns the tensors of one training batch of `input_fn` after the other."""
    import tensorflow as tf  # noqa: PLC0415

    batches = input_fn(images, labels, batch_size, training=True, num_epochs=num_epochs, seed=seed)
    return tf.compat.v1.data.make_one_shot_iterator(batches).get_next()


def input_fn(
    images: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    *,
    training: bool,
    num_epochs: int | None = None,
    seed: int = 0,
) -> Any:
    """Makes the tf.data pipeline of one training or evaluation run, in the default graph.

    Args:
      images: [count, ...], such as [count, height, width, 1].
      labels: [count].
      batch_size: Rows in a batch, over all towers together.
      training: True: shuffled anew in each epoch, full batches only. False: everything once, in
        order, with a shorter batch at the end if it does not come out even.
      num_epochs: Of training; None means for ever.
      seed: Of the shuffling.

    Returns:
      A tf.data.Dataset of (images [batch, ...], labels [batch]).
    """
    import tensorflow as tf  # noqa: PLC0415

    # Only row numbers pass through the pipeline, and the arrays stay out of the graph: checkpoints
    # and event files, which hold the graph and the pipeline's position, stay small.
    count = len(labels)
    if training:
        epochs = tf.data.Dataset.range(tf.int64.max if num_epochs is None else num_epochs)
        rows = epochs.flat_map(lambda epoch: _shuffled_rows(count, seed, epoch))
    else:
        rows = tf.data.Dataset.range(count)
    rows = rows.batch(batch_size, drop_remainder=training)

    def pick(indices: Any) -> tuple[Any, Any]:
        image, label = tf.numpy_function(
            lambda i: (images[i], labels[i]), [indices], (tf.float32, tf.int32), stateful=False
        )
        image.set_shape(indices.shape + images.shape[1:])
        label.set_shape(indices.shape)
        return image, label

    # There is nothing to tune, and a thread that tunes can delay the end of a session by seconds.
    options = tf.data.Options()
    options.autotune.enabled = False
    return rows.map(pick).with_options(options)


def _shuffled_rows(count: int, seed: int, epoch: Any) -> Any:
    """Returns a dataset of the numbers below `count`, in the order of one epoch.

    The order follows from the seed and the epoch alone. So the position in it is one number, which
    is saved and restored at once, while a shuffle buffer would have to be filled again.
    """
    import tensorflow as tf  # noqa: PLC0415

    rows = tf.range(count, dtype=tf.int64)
    order = tf.random.experimental.stateless_shuffle(rows, tf.stack([seed, epoch]))
    return tf.data.Dataset.from_tensor_slices(order)


def _noise(seed: int) -> Examples:
    """Returns images of noise with random labels."""
    random = np.random.default_rng(seed)
    images = random.random((_NOISE_IMAGES, 28, 28, 1), np.float32)
    return Examples(images, random.integers(0, CLASSES, _NOISE_IMAGES, np.int32))


def _find(folder: Path, name: str) -> Path | None:
    """Returns the file of that name, also as .gz and with ".idx" for "-idx", or None."""
    stems = (name, name.replace("-idx", ".idx"))
    candidates = (folder / (stem + end) for stem in stems for end in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _examples(images_path: Path, labels_path: Path) -> Examples:
    """Reads an image file and its label file and checks one against the other."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise ValueError(
            f"Cannot use {labels_path}: it has {len(labels)} labels, expected {len(images)}, as "
            f"many as there are images in {images_path}."
        )
    if not images.size:
        raise ValueError(
            f"Cannot use {images_path}: it has no pixels, its shape is {images.shape}."
        )
    if labels.max() >= CLASSES:
        raise ValueError(
            f"Cannot use {labels_path}: it has a label {labels.max()}, expected labels 0 to 9."
        )
    return Examples((images / np.float32(255))[..., np.newaxis], labels.astype(np.int32))
