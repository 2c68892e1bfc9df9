"""Tensors that cross between devices in a training step, for three steps on two towers."""

import pytest

from benchmarks.device_traffic import steps

TOWERS = 2
PARAMETERS = 4 * (5 * 5 * 1 * 16 + 16 + 5 * 5 * 16 * 16 + 16 + 784 * 10 + 10)
"""Bytes of the ConvNet's parameters, and of their gradients."""
DENSE_PARAMETERS = [4 * size for size in (784 * 64, 64, 64 * 10, 10)]
"""Bytes of the parameters of a network 784-64-10."""
BATCH = steps.BATCH_PER_TOWER * 4 * (28 * 28 + 1)
"""Bytes of a tower's images and labels."""
CHECKED = 4 * 6
"""Bytes of the sums by which six gradients are checked."""
LOSS = 4


def packed(size):
    """Returns the bytes of the lower triangle of a float32 matrix, made even in size."""
    even = size + size % 2
    return 4 * even * (even + 1) // 2


def test_only_batch_parameters_and_gradients_cross():
    found = steps.traffic("momentum", TOWERS)
    assert found.sent("CPU>GPU") == TOWERS * (BATCH + PARAMETERS)
    assert found.sent("GPU>CPU") == TOWERS * (PARAMETERS + CHECKED + LOSS)
    assert found.sent("GPU>GPU") == 0
    assert found.waits == []
    assert found.rounds == 0
    assert found.strays == []


def test_accumulation_and_loss_scale_do_not_wait():
    found = steps.traffic("accumulated, loss scale", TOWERS)
    scale = 4
    assert found.sent("CPU>GPU") == TOWERS * (BATCH + PARAMETERS + scale)
    assert found.sent("GPU>CPU") == TOWERS * (PARAMETERS + LOSS)
    assert found.sent("GPU>GPU") == 0
    assert found.waits == []


def test_kfac_sends_gradients_and_packed_sums_once():
    found = steps.traffic("kfac, dense kron", TOWERS, with_inverses=False)
    parameters = sum(DENSE_PARAMETERS)
    checked = 4 * len(DENSE_PARAMETERS)
    accepted = 1
    scalars = 100
    # The sums of gradients go to the GPUs that multiply them, and the products come back.
    to_gpus = found.sent("CPU>GPU") - TOWERS * (BATCH + parameters) - parameters
    to_cpu = found.sent("GPU>CPU") - TOWERS * (parameters + checked + LOSS) - parameters
    assert 0 <= to_gpus < scalars
    assert 0 <= to_cpu < scalars
    between = [each.bytes for each in found.crossings if each.route == "GPU>GPU"]
    sums = [packed(size) for size in (785, 64, 65, 10)]
    # Both inverses of a layer are where its gradient is multiplied.
    assert sorted(each for each in between if each > scalars) == sorted(sums)
    # Gradients are summed on the CPU.
    assert found.rounds == 1
    assert {each.bytes for each in found.waits} <= {0, accepted, checked, *DENSE_PARAMETERS}
    assert found.strays == []


def test_new_inverses_add_averages_and_two_rounds():
    usual = steps.traffic("kfac, dense kron", TOWERS, with_inverses=False)
    found = steps.traffic("kfac, dense kron", TOWERS)
    averages = sum(4 * size**2 for size in (785, 65, 10))
    traces, flags = 64, 16
    # Averages are spread by their bytes, inverses by what they cost.
    assert 0 <= found.sent("GPU>GPU") - usual.sent("GPU>GPU") - averages < traces
    assert 0 <= found.sent("GPU>CPU") - usual.sent("GPU>CPU") < flags
    assert found.sent("CPU>GPU") == usual.sent("CPU>GPU")
    # They wait for the averages, and are waited for.
    assert found.rounds == usual.rounds + 2
    new = {each.name for each in found.waits} - {each.name for each in usual.waits}
    assert {each.bytes for each in found.waits if each.name in new} == {0}
    assert found.strays == []


def test_unknown_step_is_refused():
    with pytest.raises(SystemExit, match=r"no step 'sdg'\. Accepted are sgd, momentum"):
        steps.check_names(["sdg"])
