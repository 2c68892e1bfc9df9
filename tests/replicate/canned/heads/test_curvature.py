from replicate.canned.heads.curvature import CurvatureLoss


def test_scaling_multiplies_the_coefficient():
    loss = CurvatureLoss("categorical", "logits", "weights", 0.5, "age")
    scaled = loss.scaled(3.0)
    assert (scaled.coefficient, loss.coefficient) == (1.5, 0.5)
    assert (scaled.kind, scaled.logits, scaled.weights, scaled.name) == (
        "categorical",
        "logits",
        "weights",
        "age",
    )
