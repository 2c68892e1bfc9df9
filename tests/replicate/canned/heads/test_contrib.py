import inspect

import pytest

import replicate
from replicate import (
    binary_classification_head,
    logistic_regression_head,
    multi_class_head,
    multi_head,
    multi_label_head,
    poisson_regression_head,
    regression_head,
)

PAIRS = {
    binary_classification_head: replicate.BinaryClassHead,
    logistic_regression_head: replicate.LogisticRegressionHead,
    multi_class_head: replicate.MultiClassHead,
    multi_head: replicate.MultiHead,
    multi_label_head: replicate.MultiLabelHead,
    poisson_regression_head: replicate.PoissonRegressionHead,
    regression_head: replicate.RegressionHead,
}
DIFFERENT_ORDER = (poisson_regression_head, regression_head)


@pytest.mark.parametrize("function", PAIRS, ids=lambda function: function.__name__)
def test_parameters_are_those_of_the_class(function):
    ours, theirs = (
        [(each.name, each.default) for each in inspect.signature(made).parameters.values()]
        for made in (function, PAIRS[function])
    )
    if function in DIFFERENT_ORDER:
        assert [name for name, _ in ours[:2]] == ["weight_column", "label_dimension"]
        ours[:2] = reversed(ours[:2])
    assert ours == theirs


def test_arguments_reach_the_heads():
    heads = [
        binary_classification_head("w", [0.5], ["no", "yes"], "sum", None, "b"),
        multi_class_head(3, "w", ["a", "b", "c"], "sum", None, "c"),
        multi_label_head(4, "w", [0.25], list("abcd"), "sum", None, ["a"], "l"),
        regression_head("w", 2, "sum", None, None, "r"),
        poisson_regression_head("w", 5, "sum", False, "p"),
        logistic_regression_head("w", "sum", "g"),
    ]
    together = multi_head(heads, [1, 2, 3, 4, 5, 6])
    assert together.name == "b_c_l_r_p_g"
    assert together.logits_dimension == 1 + 3 + 4 + 2 + 5 + 1
    assert together.loss_reduction == "sum"
    assert "accuracy/positive_threshold_0.5/b" in together.metrics()
    assert "auc/a/l" in together.metrics()
    with pytest.raises(KeyError, match="weight_column 'w'"):
        heads[3].loss([[1.0, 2.0]], [[1.0, 2.0]], {})
