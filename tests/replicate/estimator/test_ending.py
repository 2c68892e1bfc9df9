from replicate.estimator.ending import announce_end, has_ended, withdraw_end


def test_the_end_is_told_and_withdrawn(tmp_path):
    assert not has_ended(str(tmp_path))
    announce_end(str(tmp_path))
    assert has_ended(f"{tmp_path}/")
    withdraw_end(str(tmp_path))
    assert not has_ended(str(tmp_path))
    withdraw_end(str(tmp_path))


def test_training_withdraws_it(linear, tmp_path):
    announce_end(str(tmp_path))
    linear.make_estimator(tmp_path).train(linear.input_fn, steps=1)
    assert not has_ended(str(tmp_path))
