"""The agreements between kfac and replicate, which do not import each other."""

import dataclasses
from pathlib import Path

import tensorflow as tf

import kfac
from kfac import protocols as of_kfac
from kfac.damping.interface import ModelChange
from replicate import protocols as of_replicate
from replicate.all_reduce.step import WorkerStep
from replicate.canned import model_record
from replicate.canned.heads.curvature import CurvatureLoss

v1 = tf.compat.v1

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanations" / "protocols.md"


def members(protocol):
    return {name for name in vars(protocol) if not name.startswith("_") or name == "__call__"}


def keys(module):
    return {name: value for name, value in vars(module).items() if name.isupper()}


def test_both_sides_have_the_keys_and_the_page_names_them():
    assert keys(of_kfac) == keys(of_replicate)
    assert len(keys(of_kfac)) > 4
    page = PAGE.read_text()
    for name, key in keys(of_kfac).items():
        assert not isinstance(key, str)
        assert f"`{name}`" in page


def test_both_sides_ask_for_the_same_methods():
    for one, other in (
        (of_kfac.StateOwner, of_replicate.StateOwner),
        (of_kfac.AccumulatesStatistics, of_replicate.AccumulatesStatistics),
        (of_kfac.RegistersModel, model_record.RegistersModel),
    ):
        assert members(one) == members(other) != set()


def test_what_kfac_asks_for_is_given():
    assert members(of_kfac.Workers) <= members(of_replicate.Workers) <= set(dir(WorkerStep))
    for record, given in (
        (of_kfac.CannedModel, model_record.ModelRecord),
        (of_kfac.CannedLayer, model_record.Layer),
        (of_kfac.CannedLoss, CurvatureLoss),
    ):
        assert members(record) == {field.name for field in dataclasses.fields(given)}


def test_optimizers_keep_the_protocols(graph):
    given = {"learning_rate": 0.1, "damping": 0.1, "layer_collection": kfac.LayerCollection()}
    periodic = kfac.PeriodicInvCovUpdateKfacOpt(**given)
    assert isinstance(periodic, of_replicate.AccumulatesStatistics)
    assert not isinstance(kfac.KfacOptimizer(**given), of_replicate.AccumulatesStatistics)
    assert isinstance(periodic, of_replicate.StateOwner)
    assert isinstance(kfac.for_canned(0.1, 0.1), model_record.RegistersModel)
    assert not isinstance(v1.train.AdamOptimizer, model_record.RegistersModel)


def test_state_that_checkpoints_may_lack_has_an_owner(graph):
    change = ModelChange("float32")
    change.make_variables()
    (owner,) = graph.get_collection(of_replicate.OPTIONAL_STATE)
    assert isinstance(owner, of_replicate.StateOwner)
