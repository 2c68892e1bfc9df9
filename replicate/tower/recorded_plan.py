"""Recorded plan: the device plan of a graph, which hangs on the graph.

`replicate_model_fn` records the plan when it builds towers. `Estimator` reads it, to show it and to
save it with the run.
"""

import tensorflow as tf

from model_deploy.devices import DevicePlan
from replicate._types import Graph

v1 = tf.compat.v1

_KEY = ("replicate", "device_plan")
"""Key of the collection. Not a string, so that an exported MetaGraph does not contain it."""


def record_plan(plan: DevicePlan) -> None:
    """Hangs a plan on the current graph. The plan recorded last counts."""
    v1.get_default_graph().get_collection_ref(_KEY)[:] = [plan]


def recorded_plan(graph: Graph) -> DevicePlan | None:
    """Returns the plan of the towers in a graph, None if the graph has no towers."""
    plans: list[DevicePlan] = graph.get_collection_ref(_KEY)
    return plans[0] if plans else None
