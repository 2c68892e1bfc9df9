"""StandIn: type of a class that stands for one of TensorFlow's, and makes its instances."""

from typing import Any


class StandIn(type):
    """Type of a class with `kind`, the class that it stands for, and `made`, which makes instances.

    Instances of `kind` count as its instances, and what it does not define is read from `kind`.
    """

    kind: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an instance of `kind`."""
        return cls.made(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name in ("kind", "made"):
            raise AttributeError(name)
        return getattr(cls.kind, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.kind)
