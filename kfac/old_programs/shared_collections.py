"""Layer collections of models that know of no towers: all towers of a model have the same one.

Such a model makes a `LayerCollection` of its own. In a later tower it is given that of the first.
`SHARED` tells if the model's objects are shared by its towers.
"""

import functools
from typing import Any

import tensorflow as tf

from kfac.protocols import SHARED
from kfac.tracebacks import shows_user_frames

v1 = tf.compat.v1


def share_among_towers(cls: type) -> None:
    """Makes the constructor of a class return the object of the first tower in the later ones.

    The first argument of the constructor is a graph or None. A constructed object has attributes.
    """
    construct: Any = vars(cls)["__init__"]

    def __new__(cls: type, graph: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        shared = v1.get_collection(SHARED) if graph is None else []
        make = functools.partial(object.__new__, cls)
        return shared[-1](make) if shared else make()

    @shows_user_frames
    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if not vars(self):
            construct(self, *args, **kwargs)

    # The signature of the class is that of its own constructor.
    functools.update_wrapper(__new__, construct, assigned=())
    setattr(cls, "__new__", __new__)  # noqa: B010
    setattr(cls, "__init__", __init__)  # noqa: B010
