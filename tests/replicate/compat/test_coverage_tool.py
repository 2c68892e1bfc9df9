"""tools/contrib_coverage.py tells which share of the uses of old names finds something."""

import runpy
import sys
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "contrib_coverage.py"
NAMES = """
Left out: `contrib.gan`.

## tf.contrib

`training.HParams` 6/3, `layers` 50/2, `layers.nothing_of_this_name` 2/1, `gan.gan_model` 9/9

## tf.estimator

`Estimator` 5/1

## slim (tf.contrib.slim, by whatever import)

`conv2d` 3/1, `nets` 40/1, `ops.nothing` 4/1
"""


def test_share_is_counted_by_uses(tmp_path, monkeypatch, capsys):
    (tmp_path / "names.md").write_text(NAMES)
    monkeypatch.setattr(sys, "argv", ["tool", str(tmp_path / "names.md"), "--absent"])
    runpy.run_path(str(TOOL), run_name="__main__")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "tf.contrib 6 of 8 uses 75.0%",
        "tf.contrib.layers 0 of 2 uses 0.0%",
        "tf.contrib.slim 3 of 7 uses 42.9%",
        "tf.contrib.training 6 of 6 uses 100.0%",
        "tf.estimator 5 of 5 uses 100.0%",
        "all 14 of 20 uses 70.0%",
        "tf.contrib.slim.ops.nothing 4",
        "tf.contrib.layers.nothing_of_this_name 2",
    ]
