"""Rows of tf.contrib.distribute."""

from replicate.compat.table.row import STRATEGY, Row, same

_OURS = "replicate.compat.contrib.distribute"
_NO_EFFECT = "It has no effect: replicate_model_fn(reduction=…) chooses how towers are summed."

ROWS = [
    *same(
        "tf.contrib.distribute",
        _OURS,
        ("DistributeConfig", "MirroredStrategy", "ParameterServerStrategy"),
        STRATEGY,
    ),
    Row("tf.contrib.distribute.OneDeviceStrategy", "tf.distribute.OneDeviceStrategy", STRATEGY),
    Row(
        "tf.contrib.distribute.CollectiveAllReduceStrategy",
        f"{_OURS}.CollectiveAllReduceStrategy",
        "A replicate.AllReduce.",
    ),
    *(
        Row(f"tf.contrib.distribute.{old}", f"tf.distribute.{new}")
        for old, new in (
            ("DistributionStrategy", "Strategy"),
            ("get_distribution_strategy", "get_strategy"),
            ("get_replica_context", "get_replica_context"),
            ("get_tower_context", "get_replica_context"),
            ("has_distribution_strategy", "has_strategy"),
            ("in_cross_replica_context", "in_cross_replica_context"),
            ("in_cross_tower_context", "in_cross_replica_context"),
        )
    ),
    *(
        Row(f"tf.contrib.distribute.{name}", f"{_OURS}.AllReduceCrossDeviceOps", _NO_EFFECT)
        for name in ("AllReduceCrossDeviceOps", "AllReduceCrossTowerOps")
    ),
    *(
        Row(f"tf.contrib.distribute.{name}", "tf.distribute.ReductionToOneDevice", _NO_EFFECT)
        for name in ("ReductionToOneDeviceCrossDeviceOps", "ReductionToOneDeviceCrossTowerOps")
    ),
    Row("tf.contrib.distribute.*", None, STRATEGY),
]
