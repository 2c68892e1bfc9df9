"""Towers that are built one after the other on logical CPU devices."""

from model_deploy import device_plan
from replicate.tower.build import TowerSettings
from replicate.tower.scopes import tower_scopes


def in_towers(model, towers=2, averages_loss=True):
    """Calls `model(index)` in each of some towers with equal shares; returns the last result."""
    plan = device_plan([f"/cpu:{index}" for index in range(towers)])
    with tower_scopes(TowerSettings(plan, averages_loss)) as scopes:
        for index in range(towers):
            with scopes.tower(index, 1 / towers):
                result = model(index)
    return result
