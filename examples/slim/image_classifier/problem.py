"""Problem described by the flags: images, their preprocessing, and the network.

Looks up dataset, network and preprocessing by name, so that mistakes are found before anything is
built. Training and evaluation read their batches from here.
"""

import dataclasses
from typing import Any

from examples.slim.datasets import factory as datasets
from examples.slim.datasets.dataset import ImageDataset, Reading
from examples.slim.image_classifier import input_pipeline
from examples.slim.networks import factory as networks
from examples.slim.preprocessing import factory as preprocessings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    """The fields are flags of the same names; `data_flags.define` says what each is."""

    dataset_name: str
    dataset_split_name: str
    dataset_dir: str | None
    labels_offset: int
    model_name: str
    preprocessing_name: str | None
    use_grayscale: bool
    num_preprocessing_threads: int


@dataclasses.dataclass(frozen=True)
class Problem:
    """Images and their preprocessing.

    Attributes:
      flags: Values of the flags.
      dataset: Source of the images.
      preprocess: Function from an image of the dataset to an input of the network.
      image_size: Height and width of that, in pixels.
      num_classes: Outputs of the network.
    """

    flags: ProblemFlags
    dataset: ImageDataset
    preprocess: input_pipeline.Preprocess
    image_size: int
    num_classes: int

    def batches(self, reading: Reading, batch_size: int) -> Any:
        """Makes the tf.data.Dataset of a run in the default graph; see `input_pipeline`."""
        return input_pipeline.input_fn(
            self.dataset,
            reading,
            self.preprocess,
            image_size=self.image_size,
            batch_size=batch_size,
            labels_offset=self.flags.labels_offset,
            num_threads=self.flags.num_preprocessing_threads,
        )

    def __str__(self) -> str:
        """Returns the problem as one line for a terminal."""
        data = self.dataset
        return (
            f"{data.name} {data.split_name}: {data.num_samples:,} images, {self.num_classes} "
            f"classes, for {self.flags.model_name} as {self.image_size}x{self.image_size}"
        )


def pose(flags: ProblemFlags, image_size: int | None, is_training: bool) -> Problem:
    """Looks up the dataset, the network and the preprocessing that the flags name.

    Without an image size, it is the network's own.

    Raises:
      ValueError: A name is unknown, files are missing, or labels_offset leaves no class.
    """
    dataset = datasets.get_dataset(flags.dataset_name, flags.dataset_split_name, flags.dataset_dir)
    num_classes = dataset.num_classes - flags.labels_offset
    if num_classes < 1:
        raise ValueError(
            f"--labels_offset={flags.labels_offset} leaves no class: {dataset.name} has "
            f"{dataset.num_classes} of them. Set a lower one."
        )
    network_fn = networks.get_network_fn(flags.model_name, num_classes)
    preprocess = preprocessings.get_preprocessing(
        flags.preprocessing_name or flags.model_name, is_training, flags.use_grayscale
    )
    size = image_size or network_fn.default_image_size
    return Problem(flags, dataset, preprocess, size, num_classes)
