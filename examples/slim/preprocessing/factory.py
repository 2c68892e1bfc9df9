"""Preprocessing by name of the network.

Owns the table of names. Each kind of preprocessing has a module. Several networks share one kind.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

from examples.slim.preprocessing import cifarnet, inception, lenet, vgg
from examples.slim.preprocessing.pixels import Tensor

PREPROCESSING: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "cifarnet": cifarnet.preprocess,
        "inception": inception.preprocess,
        "inception_v3": inception.preprocess,
        "lenet": lenet.preprocess,
        "mobilenet_v1": inception.preprocess,
        "resnet_v1_18": vgg.preprocess,
        "resnet_v1_34": vgg.preprocess,
        "resnet_v1_50": vgg.preprocess,
        "resnet_v2_18": vgg.preprocess,
        "resnet_v2_34": vgg.preprocess,
        "resnet_v2_50": vgg.preprocess,
        "vgg": vgg.preprocess,
        "vgg_11": vgg.preprocess,
        "vgg_16": vgg.preprocess,
    }
)
"""Preprocessing of each network's images, and each kind of preprocessing by its own name."""


def get_preprocessing(
    name: str, is_training: bool = False, use_grayscale: bool = False
) -> Callable[..., Tensor]:
    """Returns the function that prepares an image for a network.

    Args:
      name: One of `PREPROCESSING`.
      is_training: True: vary images at random.
      use_grayscale: True: convert images of three channels to one.

    Returns:
      `preprocess(image, height, width, seed=None)`, for use in `tf.data.Dataset.map`. An image is
      [any height, any width, 1 or 3 channels] with values from 0 to 255, of any numeric type. The
      result is float32 [height, width, channels]. The seed is an integer Tensor [2], another one
      for each image. It determines all random choices. All kinds except LeNet's need it in
      training.

    Raises:
      ValueError: There is no such name.
    """
    if name not in PREPROCESSING:
        raise ValueError(
            f"get_preprocessing: there is no preprocessing {name!r}; take one of "
            f"{', '.join(PREPROCESSING)}."
        )
    preprocess = PREPROCESSING[name]
    return functools.partial(preprocess, is_training=is_training, use_grayscale=use_grayscale)
