"""tf.contrib.staging: an area on a device that keeps the next elements ready."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

__all__ = ["StagingArea"]


class StagingArea:
    """A queue of elements, each a fixed number of tensors, on the device where it is made.

    Attributes:
      dtypes: Types of the tensors of an element.
      shapes: Their static shapes.
      names: Their names, empty if elements are lists.
      capacity: Largest number of elements, 0 for any.
      memory_limit: Largest number of bytes, 0 for any.
    """

    def __init__(
        self,
        dtypes: Iterable[Any],
        shapes: Iterable[Any] | None = None,
        names: Iterable[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Makes an empty area; areas of one shared name on one device are the same.

        Raises:
          ValueError: There are not as many shapes or names as types, or a limit is negative.
        """
        self.dtypes = [tf.as_dtype(each) for each in dtypes]
        unknown: list[Any] = [None] * len(self.dtypes)
        self.shapes = [tf.TensorShape(e) for e in (unknown if shapes is None else shapes)]
        self.names = [] if names is None else list(names)
        for what, given in (("shapes", self.shapes), ("names", self.names)):
            if len(given) != len(self.dtypes) and (given or what == "shapes"):
                raise ValueError(
                    f"StagingArea got {len(self.dtypes)} dtypes and {len(given)} {what}: {given}."
                )
        for what, limit in (("capacity", capacity), ("memory_limit", memory_limit)):
            if limit < 0:
                raise ValueError(f"StagingArea: {what} must be >= 0, got {limit}.")
        self.capacity, self.memory_limit = capacity, memory_limit
        self._name = shared_name or v1.get_default_graph().unique_name("StagingArea", False)
        self._place = tf.no_op(name=f"{self._name}_root").device

    @property
    def name(self) -> str:
        """Name of the area."""
        return self._name

    def put(self, values: Any, name: str | None = None) -> Operation:
        """Returns an operation that adds an element; it waits while the area is full.

        Args:
          values: The tensors: one, a list, or a dict if the area has names.
          name: Name of the operation.

        Raises:
          ValueError: They are not as many as the types, or their names are others.
        """
        tensors = self._tensors(values)
        with self._on_device(), tf.name_scope(name or f"{self._name}_put"):
            return tf.raw_ops.Stage(values=tensors, **self._settings())

    def get(self, name: str | None = None) -> Any:
        """Returns the oldest element, which leaves the area: a tensor, a list or a dict."""
        with self._on_device(), tf.name_scope(name or f"{self._name}_get"):
            return self._element(tf.raw_ops.Unstage(**self._settings(), dtypes=self.dtypes))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """Returns the element of an index, which stays: a tensor, a list or a dict."""
        with self._on_device(), tf.name_scope(name or f"{self._name}_peek"):
            settings = {**self._settings(), "dtypes": self.dtypes}
            return self._element(tf.raw_ops.StagePeek(index=index, **settings))

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of elements, a scalar of type int32."""
        with self._on_device(), tf.name_scope(name or f"{self._name}_size"):
            return tf.raw_ops.StageSize(**self._settings(), dtypes=self.dtypes)

    def clear(self, name: str | None = None) -> Operation:
        """Returns an operation that removes all elements."""
        with self._on_device(), tf.name_scope(name or f"{self._name}_clear"):
            return tf.raw_ops.StageClear(**self._settings(), dtypes=self.dtypes)

    def _settings(self) -> dict[str, Any]:
        return {
            "shared_name": self._name,
            "capacity": self.capacity,
            "memory_limit": self.memory_limit,
        }

    def _on_device(self) -> Any:
        """Returns the scope of the device that the area is on."""
        return v1.device(self._place)

    def _tensors(self, values: Any) -> list[Tensor]:
        given: Sequence[Any]
        if isinstance(values, Mapping):
            if set(values) != set(self.names):
                raise ValueError(
                    f"StagingArea.put got the names {sorted(values)}, the area has {self.names}."
                )
            given = [values[each] for each in self.names]
        else:
            given = values if isinstance(values, list | tuple) else [values]
        if len(given) != len(self.dtypes):
            raise ValueError(
                f"StagingArea.put got {len(given)} tensors, and an element has {len(self.dtypes)}."
            )
        tensors = [
            tf.convert_to_tensor(each, dtype)
            for each, dtype in zip(given, self.dtypes, strict=True)
        ]
        for tensor, shape in zip(tensors, self.shapes, strict=True):
            if not tensor.shape.is_compatible_with(shape):
                raise ValueError(f"StagingArea.put got {tensor}, whose shape must be {shape}.")
        return tensors

    def _element(self, tensors: Sequence[Tensor]) -> Any:
        for tensor, shape in zip(tensors, self.shapes, strict=True):
            tensor.set_shape(shape)
        if self.names:
            return dict(zip(self.names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else list(tensors)
