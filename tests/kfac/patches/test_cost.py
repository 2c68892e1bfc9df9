from kfac.patches.cost import PRODUCT_COST, WRITE_COST, CostEstimate


def test_cost():
    assert CostEstimate().cost == 0
    expected = 5 + 7 * WRITE_COST + 2 * PRODUCT_COST
    assert CostEstimate(multiplications=5, written=7, products=2).cost == expected
