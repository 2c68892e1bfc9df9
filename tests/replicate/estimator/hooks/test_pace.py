import pytest

from replicate.estimator.hooks.pace import Pace


def paced(*marks):
    """A pace whose first step ended at time 0, after marks of (seconds, step)."""
    pace = Pace()
    pace.begin(1, 0.0)
    for time, step in marks:
        pace.update(step, time)
    return pace


def test_rate_is_that_since_the_last_update():
    pace = paced((5.0, 11))
    assert pace.update(31, 10.0) == 4.0


def test_time_left_is_unknown_until_two_rates_agree():
    assert paced((5.0, 11)).secs_until(100) is None
    assert paced((5.0, 3), (10.0, 23)).secs_until(100) is None
    assert paced((5.0, 11), (10.0, 21)).secs_until(101) == pytest.approx(40.0)


def test_time_left_stays_known_when_the_rate_changes():
    pace = paced((5.0, 11), (10.0, 21), (15.0, 22))
    assert pace.secs_until(43) == pytest.approx(15.0)


def test_unsteady_rates_count_after_half_a_minute():
    pace = paced((1.0, 2), (29.0, 100))
    assert pace.secs_until(199) is None
    pace.update(100, 30.0)
    assert pace.secs_until(199) == pytest.approx(30.0)


def test_time_left_follows_the_rate_of_the_last_minute():
    pace = paced(*((time, 1 + 10 * time) for time in range(10, 200, 10)))
    assert pace.secs_until(pace.step + 100) == pytest.approx(10.0)
    for number in range(1, 7):
        pace.update(pace.step + 10, 190.0 + 10 * number)
    assert pace.secs_until(pace.step + 10) == pytest.approx(10.0)


def test_nothing_is_left_at_the_end_even_without_a_rate():
    assert paced().secs_until(1) == 0.0
    assert paced((5.0, 9)).secs_until(8) == 0.0


def test_no_progress_gives_no_time():
    assert paced((20.0, 1), (40.0, 1)).secs_until(100) is None
