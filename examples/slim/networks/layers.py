"""The layers that all networks of this folder are made of.

`Layers` holds what the layers of a network have in common and makes them on `get_variable` and
`tf.nn`. Weights and biases are `<name>/weights` and `<name>/biases`, those of a batch normalization
`gamma`, `beta`, `moving_mean` and `moving_variance`. All are in MODEL_VARIABLES; weight decay goes
to REGULARIZATION_LOSSES, updates of moving statistics go to UPDATE_OPS. Images are [batch, height,
width, channels] and float32. No network is described here.

References:
  Ioffe & Szegedy (2015), "Batch Normalization: Accelerating Deep Network Training by Reducing
  Internal Covariate Shift", arXiv 1502.03167.
  He et al. (2015), "Delving Deep into Rectifiers", arXiv 1502.01852 (initial weights).
  Srivastava et al. (2014), "Dropout", JMLR 15.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

import replicate

v1 = tf.compat.v1
Tensor: TypeAlias = Any
Size: TypeAlias = int | tuple[int, int]
"""Height and width of a window; one number for both."""
Activation: TypeAlias = Callable[[Tensor], Tensor] | None
EndPoints: TypeAlias = dict[str, Tensor]
Network: TypeAlias = Callable[[Tensor, int | None, "Layers"], tuple[Tensor, EndPoints]]
"""Takes images, the number of classes (0 or None: no logits) and its layers."""

_EPSILON = 1e-3
"""Added to the variance in batch normalization; Ioffe & Szegedy (2015) leave it open."""


def network(default_image_size: int) -> Callable[[Network], Network]:
    """Makes a function a network: its variables are under its name.

    Args:
      default_image_size: Height and width of the images that it was designed for; becomes an
        attribute of the function.
    """

    def decorate(function: Network) -> Network:
        @functools.wraps(function)
        def scoped(
            images: Tensor, num_classes: int | None, layers: "Layers"
        ) -> tuple[Tensor, EndPoints]:
            with v1.variable_scope(function.__name__):
                return function(images, num_classes, layers)

        vars(scoped)["default_image_size"] = default_image_size
        return scoped

    return decorate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layers:
    """Makes layers with the same settings.

    Each layer has a name, which is its variable scope. Channels are what the network's paper says;
    `depth_multiplier` times as many are made.

    Attributes:
      is_training: True: batch normalization uses the batch's statistics, and dropout drops.
      weight_decay: λ ≥ 0 of ½λ‖w‖², for the weights of dense layers and convolutions. Not for
        biases and normalizations, nor for depthwise filters, which have few parameters
        (Howard et al. 2017, §3.1).
      depth_multiplier: Above 0; scales the channels of all layers but the logits.
      batch_norm_decay: Weight of the old moving average, in [0, 1).
      dropout_keep_prob: Share of units that dropout keeps, in (0, 1]; None for the network's own.
    """

    is_training: bool = False
    weight_decay: float = 0.0
    depth_multiplier: float = 1.0
    batch_norm_decay: float = 0.99
    dropout_keep_prob: float | None = None

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
          TypeError: `is_training` is no Python bool.
          ValueError: A number is out of range.
        """
        if not isinstance(self.is_training, bool):
            raise TypeError(
                f"network: is_training must be a Python bool, got {self.is_training!r}. Build the "
                "network once for training and once for evaluation."
            )
        decay, keep = self.batch_norm_decay, self.dropout_keep_prob
        for name, is_valid, accepted in (
            ("weight_decay", self.weight_decay >= 0, "at least 0"),
            ("depth_multiplier", self.depth_multiplier > 0, "above 0"),
            ("batch_norm_decay", 0 <= decay < 1, "at least 0 and below 1"),
            ("dropout_keep_prob", keep is None or 0 < keep <= 1, "above 0 and at most 1, or None"),
        ):
            if not is_valid:
                value = getattr(self, name)
                raise ValueError(f"network: {name} must be {accepted}, got {value!r}.")

    def conv2d(
        self,
        name: str,
        inputs: Tensor,
        channels: int,
        size: Size,
        stride: int = 1,
        padding: str = "SAME",
        *,
        use_bias: bool = True,
        activation: Activation = tf.nn.relu,
    ) -> Tensor:
        """Convolves, adds a bias and applies an activation: [batch, height, width, channels]."""
        with v1.variable_scope(name):
            outputs = self._convolved(inputs, channels, size, stride, padding)
            if use_bias:
                outputs = tf.nn.bias_add(outputs, _biases(channels_of(outputs)))
            return activation(outputs) if activation else outputs

    def conv2d_bn(
        self,
        name: str,
        inputs: Tensor,
        channels: int,
        size: Size,
        stride: int = 1,
        padding: str = "SAME",
        *,
        activation: Activation = tf.nn.relu,
    ) -> Tensor:
        """Convolves, normalizes and applies an activation: [batch, height, width, channels]."""
        with v1.variable_scope(name):
            outputs = self._convolved(inputs, channels, size, stride, padding)
            return self.batch_norm("BatchNorm", outputs, activation=activation)

    def depthwise_bn(self, name: str, inputs: Tensor, size: int, stride: int = 1) -> Tensor:
        """Convolves each channel with one filter, SAME padding; normalizes, then ReLU."""
        with v1.variable_scope(name):
            filters = _variable(
                "depthwise_weights",
                [size, size, channels_of(inputs), 1],
                # As many inputs of a unit as the filter has pixels: variance 2 / size².
                v1.initializers.truncated_normal(stddev=2**0.5 / size),
            )
            strides = [1, stride, stride, 1]
            outputs = tf.nn.depthwise_conv2d(inputs, filters, strides, "SAME")
            return self.batch_norm("BatchNorm", outputs)

    def dense(self, name: str, inputs: Tensor, units: int) -> Tensor:
        """Multiplies by a matrix, adds a bias, then ReLU: [batch, features] -> [batch, units]."""
        initializer = v1.initializers.he_normal()
        return tf.nn.relu(self._linear(name, inputs, self._scaled(units), initializer))

    def logits(self, name: str, inputs: Tensor, num_classes: int) -> Tensor:
        """Multiplies by a matrix and adds a bias: [batch, features] -> [batch, num_classes]."""
        return self._linear(name, inputs, num_classes, v1.initializers.glorot_uniform())

    def classified(
        self, features: Tensor, num_classes: int | None, end_points: EndPoints
    ) -> tuple[Tensor, EndPoints]:
        """Ends a network: features [batch, n] -> logits [batch, num_classes], in scope `logits`.

        Args:
          features: Inputs of the classifier.
          num_classes: 0 or None leaves the logits out.
          end_points: Outputs of the earlier layers, by name.

        Returns:
          The logits, or the features if there are none; and all end points.
        """
        end_points = {**end_points, "PreLogits": features}
        if not num_classes:
            return features, end_points
        logits = self.logits("logits", features, num_classes)
        return logits, {**end_points, "Logits": logits, "Predictions": tf.nn.softmax(logits)}

    def batch_norm(
        self, name: str, inputs: Tensor, *, activation: Activation = tf.nn.relu
    ) -> Tensor:
        """Normalizes each channel, scales, shifts and applies an activation, None for none.

        In training with mean and variance of the batch, which also move `moving_mean` and
        `moving_variance` (through UPDATE_OPS); otherwise with these. Ioffe & Szegedy (2015), §3.
        """
        zeros, ones = v1.initializers.zeros(), v1.initializers.ones()
        shape = [channels_of(inputs)]
        with v1.variable_scope(name):
            scale, shift = _variable("gamma", shape, ones), _variable("beta", shape, zeros)
            moving = (
                _variable("moving_mean", shape, zeros, trainable=False),
                _variable("moving_variance", shape, ones, trainable=False),
            )
            known = {} if self.is_training else {"mean": moving[0], "variance": moving[1]}
            outputs, *moments = v1.nn.fused_batch_norm(
                inputs, scale, shift, **known, epsilon=_EPSILON, is_training=self.is_training
            )
            if self.is_training:
                for average, value in zip(moving, moments, strict=True):
                    self._move(average, value)
            return activation(outputs) if activation else outputs

    def dropout(self, inputs: Tensor, keep_prob: float) -> Tensor:
        """Sets units to zero at random in training, and scales the others up.

        What is dropped follows from the global step, the tower and the name scope: training that
        goes on from a checkpoint drops what it would have dropped without a stop, and the towers
        or clones of a model drop different units.

        Args:
          inputs: Any shape.
          keep_prob: Share of units to keep, unless the settings say otherwise.

        Raises:
          ValueError: In training, the graph has no global step.
        """
        keep_prob = self.dropout_keep_prob or keep_prob
        if not self.is_training or keep_prob == 1:
            return inputs
        with v1.name_scope("dropout") as scope:
            seed = replicate.step_seed(zlib.crc32(scope.encode()) % 2**31)
            return tf.nn.experimental.stateless_dropout(inputs, rate=1 - keep_prob, seed=seed)

    def _move(self, average: Any, value: Tensor) -> None:
        """Lets a moving average take a step whenever UPDATE_OPS run."""
        change = (1 - self.batch_norm_decay) * (average.read_value() - value)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(average, change).op)

    def _convolved(
        self, inputs: Tensor, channels: int, size: Size, stride: int, padding: str
    ) -> Tensor:
        height, width = size if isinstance(size, tuple) else (size, size)
        shape = [height, width, channels_of(inputs), self._scaled(channels)]
        weights = self._weights(shape, v1.initializers.he_normal())
        return tf.nn.conv2d(inputs, weights, stride, padding)

    def _linear(self, name: str, inputs: Tensor, units: int, initializer: Any) -> Tensor:
        with v1.variable_scope(name):
            weights = self._weights([channels_of(inputs), units], initializer)
            return tf.matmul(inputs, weights) + _biases(units)

    def _weights(self, shape: list[int], initializer: Any) -> Any:
        return _variable("weights", shape, initializer, regularizer=self._decay())

    def _decay(self) -> Callable[[Any], Tensor] | None:
        if not self.weight_decay:
            return None
        return lambda weights: self.weight_decay * tf.nn.l2_loss(weights)

    def _scaled(self, channels: int) -> int:
        return max(round(channels * self.depth_multiplier), 1)


def channels_of(inputs: Tensor) -> int:
    """Returns the static size of the last axis, also where `disable_v2_behavior` was called."""
    return inputs.shape.as_list()[-1]


def max_pool(inputs: Tensor, size: int, stride: int, padding: str = "SAME") -> Tensor:
    """Takes the largest value of each window."""
    return tf.nn.max_pool2d(inputs, size, stride, padding)


def avg_pool(inputs: Tensor, size: int, stride: int, padding: str = "SAME") -> Tensor:
    """Takes the mean of each window; pixels outside of the image do not count."""
    return tf.nn.avg_pool2d(inputs, size, stride, padding)


def global_pool(inputs: Tensor) -> Tensor:
    """Takes the mean over all pixels: [batch, height, width, channels] -> [batch, channels]."""
    return tf.reduce_mean(inputs, axis=[1, 2])


def flatten(inputs: Tensor) -> Tensor:
    """Puts all values of an image in a row: [batch, ...] -> [batch, features].

    Raises:
      ValueError: The size of an image is not known before it is there.
    """
    features = inputs.shape[1:].num_elements()
    if features is None:
        raise ValueError(
            f"network: images of shape {inputs.shape} cannot go into a dense layer, which needs to "
            "know how many values there are. Give them a size, with tf.image.resize or set_shape."
        )
    return tf.reshape(inputs, [-1, features])


def _variable(name: str, shape: list[int], initializer: Any, **kwargs: Any) -> Any:
    collections = [v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.MODEL_VARIABLES]
    return v1.get_variable(name, shape, initializer=initializer, collections=collections, **kwargs)


def _biases(units: int) -> Any:
    return _variable("biases", [units], v1.initializers.zeros())
