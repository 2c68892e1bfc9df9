import tensorflow as tf

from kfac.graph_search.decision import Decision, decision_lines, warning_text

v1 = tf.compat.v1


def test_text(graph):
    w, b, gain = (v1.get_variable(name, [1]) for name in ("w", "b", "gain"))
    layer, lost = Decision((w, b), "dense layer"), Decision(gain, "generic", is_expected=False)
    assert decision_lines([layer, lost]) == ["w, b: dense layer", "gain: generic"]
    assert warning_text([layer]) is None
    assert "that they belong to:\n  gain: generic\nIf they" in warning_text([layer, lost])
