import pytest

from benchmarks.rivals import environments
from benchmarks.time_to_loss import race_settings

TABLES = {"ours": race_settings.SETTINGS, **race_settings.RIVAL_SETTINGS}


@pytest.mark.parametrize("name", TABLES)
def test_optimizers_choose_among_as_many_settings(name):
    table = TABLES[name]
    assert race_settings.BASELINE in table
    assert table.keys() <= race_settings.BLOCK.keys()
    counts = {len(set(settings)) for problems in table.values() for settings in problems.values()}
    assert counts == {3}


@pytest.mark.parametrize("name", race_settings.RIVAL_SETTINGS)
def test_rivals_have_our_adam_and_problems(name):
    table = race_settings.RIVAL_SETTINGS[name]
    assert table["adam"] == race_settings.SETTINGS["adam"]
    models = {race_settings.Problem(model).name for model in environments.RIVALS[name].models}
    assert models == set.intersection(*map(set, table.values())) & set(race_settings.MODELS)


def test_options_cover_every_problem_of_an_optimizer():
    tables = {**race_settings.RIVAL_SETTINGS["pytorch"], "kfac": race_settings.SETTINGS["kfac"]}
    for optimizer, options in race_settings.RIVAL_OPTIONS.items():
        assert options.keys() == tables[optimizer].keys()


def test_yardsticks_are_adam_and_sgd():
    assert race_settings.yardsticks(race_settings.SETTINGS) == {"adam", "momentum"}
    assert race_settings.yardsticks(TABLES["kfac-jax"]) == {"adam"}


def test_every_rival_has_settings():
    assert list(race_settings.RIVAL_SETTINGS) == environments.with_programs("losses")
