from kfac.update_thunks import CurvatureOps, Thunks


def test_results_unpack_in_the_order_that_callers_know():
    assert Thunks._fields == ("cov_variables", "cov_updates", "inv_variables", "inv_updates")
    assert CurvatureOps._fields == (
        "cov_updates",
        "cov_update",
        "inv_updates",
        "inv_update",
        "cov_update_thunks",
        "inv_update_thunks",
    )
