"""tf.contrib.image: rotations, translations and other projections of images.

A projection is a row (a0, a1, a2, b0, b1, b2, c0, c1). The output's pixel (x, y) is the input's at
((a0·x + a1·y + a2) / k, (b0·x + b1·y + b2) / k) with k = c0·x + c1·y + 1, and 0 outside of it.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "flat_transforms_to_matrices",
    "matrices_to_flat_transforms",
    "rotate",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]

_INTERPOLATIONS = ("NEAREST", "BILINEAR")


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Tensor:
    """Rotates images counter-clockwise about their centers.

    Args:
      images: [batch, rows, columns, channels], [rows, columns, channels] or [rows, columns].
      angles: Radians: a scalar, or one for each image, [batch].
      interpolation: "NEAREST" or "BILINEAR".
      name: Name of the operations.

    Returns:
      Images of the same shape and type.

    Raises:
      ValueError: The rank or the interpolation is another one.
    """
    with tf.name_scope(name or "rotate"):
        given = tf.convert_to_tensor(images)
        rows, columns = _size(given)
        projections = angles_to_projective_transforms(
            angles, tf.cast(rows, tf.float32), tf.cast(columns, tf.float32)
        )
        return transform(given, projections, interpolation)


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Tensor:
    """Moves images; arguments, result and errors are those of `rotate`.

    Args:
      images: As for `rotate`.
      translations: Pixels to the right and down: (dx, dy), or one pair for each image, [batch, 2].
      interpolation: As for `rotate`.
      name: As for `rotate`.
    """
    with tf.name_scope(name or "translate"):
        projections = translations_to_projective_transforms(translations)
        return transform(images, projections, interpolation)


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """Applies projections to images; the result is differentiable in them.

    Args:
      images: As for `rotate`.
      transforms: One projection, [8], or one for each image, [batch, 8].
      interpolation: As for `rotate`.
      output_shape: Rows and columns of the result, those of the images by default.
      name: Name of the operations.

    Returns:
      Images of the same rank and type.

    Raises:
      ValueError: A rank or the interpolation is another one.
    """
    if interpolation.upper() not in _INTERPOLATIONS:
        raise ValueError(f"interpolation must be one of {_INTERPOLATIONS}, got {interpolation!r}.")
    with tf.name_scope(name or "transform"):
        given = tf.convert_to_tensor(images)
        rank = given.shape.rank
        projections = tf.convert_to_tensor(transforms, tf.float32)
        if rank not in (2, 3, 4) or projections.shape.rank not in (1, 2):
            raise ValueError(
                "images must have 2 to 4 axes and transforms 1 or 2, got the shapes "
                f"{given.shape} and {projections.shape}."
            )
        batch = given[None] if rank == 3 else given[None, ..., None] if rank == 2 else given
        size = tf.stack(_size(given)) if output_shape is None else output_shape
        result = tf.raw_ops.ImageProjectiveTransformV2(
            images=batch,
            transforms=projections[None] if projections.shape.rank == 1 else projections,
            output_shape=size,
            interpolation=interpolation.upper(),
        )
        static = tf.get_static_value(size)
        if output_shape is None and static is None:
            static = given.shape[-3:-1] if rank > 2 else given.shape
        edges = (None, None) if static is None else tuple(static)
        result.set_shape([batch.shape[0], *edges, batch.shape[3]])
        return result[0] if rank == 3 else result[0, ..., 0] if rank == 2 else result


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> Tensor:
    """Returns the projections that rotate images, [batch, 8].

    Args:
      angles: Radians, a scalar or [batch].
      image_height: Rows of the images, a float.
      image_width: Their columns.
      name: Name of the operations.

    Raises:
      ValueError: The angles have more than one axis.
    """
    with tf.name_scope(name or "angles_to_projective_transforms"):
        angles = tf.convert_to_tensor(angles, tf.float32)
        if angles.shape.rank not in (0, 1):
            raise ValueError(f"angles must be a scalar or have one axis, got {angles.shape}.")
        angles = angles[None] if angles.shape.rank == 0 else angles
        cosine, sine, zero = tf.cos(angles), tf.sin(angles), tf.zeros_like(angles)
        x, y = (
            (tf.convert_to_tensor(image_width) - 1) / 2,
            (tf.convert_to_tensor(image_height) - 1) / 2,
        )
        x, y = tf.cast(x, tf.float32), tf.cast(y, tf.float32)
        to_x = x - (cosine * x - sine * y)
        to_y = y - (sine * x + cosine * y)
        return tf.stack([cosine, -sine, to_x, sine, cosine, to_y, zero, zero], 1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Tensor:
    """Returns the projections that move images by (dx, dy), [batch, 8].

    Raises:
      ValueError: The translations are neither [2] nor [batch, 2].
    """
    with tf.name_scope(name or "translations_to_projective_transforms"):
        moves = tf.convert_to_tensor(translations, tf.float32)
        if moves.shape.rank not in (1, 2):
            raise ValueError(f"translations must be [2] or [batch, 2], got {moves.shape}.")
        moves = moves[None] if moves.shape.rank == 1 else moves
        one, zero = tf.ones_like(moves[:, 0]), tf.zeros_like(moves[:, 0])
        return tf.stack([one, zero, -moves[:, 0], zero, one, -moves[:, 1], zero, zero], 1)


def compose_transforms(*transforms: Any) -> Tensor:
    """Returns the projections that are as several, the first of which is applied first, [batch, 8].

    Raises:
      ValueError: None is given.
    """
    if not transforms:
        raise ValueError("compose_transforms got no transform: give one or more.")
    with tf.name_scope("compose_transforms"):
        first, *others = [flat_transforms_to_matrices(each) for each in transforms]
        for each in others:
            first = tf.linalg.matmul(first, each)
        return matrices_to_flat_transforms(first)


def flat_transforms_to_matrices(transforms: Any) -> Tensor:
    """Returns projections, [8] or [batch, 8], as matrices, [batch, 3, 3]."""
    with tf.name_scope("flat_transforms_to_matrices"):
        flat = tf.reshape(tf.convert_to_tensor(transforms, tf.float32), [-1, 8])
        return tf.reshape(tf.concat([flat, tf.ones_like(flat[:, :1])], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Tensor:
    """Returns matrices, [3, 3] or [batch, 3, 3], as projections, [batch, 8]."""
    with tf.name_scope("matrices_to_flat_transforms"):
        matrices = tf.convert_to_tensor(transform_matrices, tf.float32)
        flat = tf.reshape(matrices, [-1, 9])
        return flat[:, :8] / flat[:, 8:]


def _size(images: Tensor) -> tuple[Any, Any]:
    """Returns rows and columns of images of any rank."""
    shape, rank = tf.shape(images), images.shape.rank
    if rank not in (2, 3, 4):
        raise ValueError(f"images must have 2 to 4 axes, got the shape {images.shape}.")
    first = 1 if rank == 4 else 0
    return shape[first], shape[first + 1]
