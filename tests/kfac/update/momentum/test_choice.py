import dataclasses

import pytest
import tensorflow as tf

from kfac.update.momentum import make_momentum
from kfac.update.momentum.choice import MomentumSettings

GIVEN = MomentumSettings(
    momentum_type="regular",
    learning_rate=0.1,
    momentum=0.9,
    norm_constraint=None,
    update_rescale=None,
    weight_decay=None,
    dtype=tf.float32,
)


def changed(settings=GIVEN, **changes):
    return dataclasses.replace(settings, **changes)


CHOSEN = changed(learning_rate=None, momentum=None)


@pytest.mark.parametrize(
    ("momentum_type", "settings", "message"),
    [
        ("nesterov", GIVEN, r"momentum_type='nesterov'. Accepted are 'regular', 'adam', 'qmodel'"),
        ("adam", changed(learning_rate=0.0), r"learning_rate=0.0. It must be > 0"),
        ("adam", changed(momentum=-1), r"momentum=-1. It must be >= 0"),
        ("adam", changed(norm_constraint=0), r"norm_constraint=0. It must be > 0"),
        ("qmodel", changed(CHOSEN, update_rescale=0), r"qmodel_update_rescale=0. It must be > 0"),
        ("regular", CHOSEN, r"learning_rate=None with momentum_type='regular'. Pass a number"),
        ("adam", changed(update_rescale=1.0), r"qmodel_update_rescale=1.0 does not go with"),
        ("qmodel", changed(CHOSEN, momentum=0.9), r"momentum=0.9 does not go with .*'qmodel'"),
        ("qmodel", changed(CHOSEN, learning_rate=1), r"learning_rate=1 does not go with .*qmodel"),
        ("qmodel", changed(CHOSEN, norm_constraint=1), r"norm_constraint=1 does not go with"),
        ("qmodel_fixedmu", GIVEN, r"learning_rate=0.1 does not go with .*'qmodel_fixedmu'"),
        ("qmodel_fixedmu", CHOSEN, r"momentum=None with momentum_type='qmodel_fixedmu'"),
    ],
)
def test_what_does_not_go_together(momentum_type, settings, message):
    with pytest.raises(ValueError, match=message):
        make_momentum(changed(settings, momentum_type=momentum_type), None)
