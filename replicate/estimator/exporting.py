"""Export of a checkpoint as a SavedModel that other programs load.

Owns the directory of an export (numbered by time, written under a temporary name and renamed when
complete), its signatures and its assets. Devices are removed from the written graph, so that a
model trained on many devices loads on one. `Estimator.export_saved_model` calls it;
`replicate.export` owns the outputs of the signatures.
"""

import contextlib
import dataclasses
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from replicate.estimator.checkpoints.reading import restore_variables
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session_options import complete_config
from replicate.estimator.warm_start import WarmStartSettings, save_warm_start
from replicate.export.outputs import (
    DEFAULT_SIGNATURE,
    EvalOutput,
    ExportOutput,
    TrainOutput,
    completed_outputs,
)
from replicate.saved.disk_errors import disk_errors
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1

Build: TypeAlias = Callable[[str, Callable[[], Any]], tuple[Any, EstimatorSpec]]
"""fn(mode, receiver_fn) → (receiver, model), built in the default graph."""

_UNFINISHED = re.compile(r"temp-(\d{10,})")
_ABANDONED_SECS = 24 * 3600
"""Age in seconds at which an unfinished export counts as killed."""

TAGS = {
    ModeKeys.TRAIN: v1.saved_model.tag_constants.TRAINING,
    ModeKeys.EVAL: "eval",
    ModeKeys.PREDICT: v1.saved_model.tag_constants.SERVING,
}
"""Tag of the graph of each mode, in the order of export. The first mode's variables are written."""


@dataclasses.dataclass(frozen=True)
class ServedGraph:
    """The graph of one mode, as it is written.

    Attributes:
      tag: By which a SavedModel's graphs are told apart.
      meta_graph: The graph, in which no operation names a device.
      signatures: SignatureDefs by name.
      main_op: Name of the operation that follows the loading of variables.
    """

    tag: str
    meta_graph: Any
    signatures: dict[str, Any]
    main_op: str


def export_graphs(
    export_dir_base: str,
    receiver_fns: Mapping[str, Callable[[], Any]],
    build: Build,
    checkpoint: str | WarmStartSettings,
    config: RunConfig,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
) -> bytes:
    """Writes one SavedModel with a graph for each mode, and returns its directory.

    The directory is named after the time in seconds. Variables come from a checkpoint, or from the
    warm start of a model without one.

    Raises:
      ValueError: There is no mode or an unknown one, an asset is missing, no signature can be
        made, or a mode has variables that the first one has not.
      CheckpointError: The checkpoint does not fit the model, or the disk refuses the export.
    """
    _check_modes(receiver_fns)
    assets = _checked_assets(assets_extra or {})
    remove_unfinished(export_dir_base, time.time() - _ABANDONED_SECS)
    advice = "There is no new export, and the checkpoints are whole. Export again."
    with (
        disk_errors(f"Cannot export the model to {export_dir_base}", advice),
        tempfile.TemporaryDirectory() as folder,
        _new_version(export_dir_base) as (unfinished, finished),
    ):
        builder = v1.saved_model.Builder(unfinished)
        written: set[str] = set()
        for mode in (mode for mode in TAGS if mode in receiver_fns):
            with tf.Graph().as_default():
                receiver, spec = build(mode, receiver_fns[mode])
                served = _served_graph(mode, receiver, spec)
                if isinstance(checkpoint, WarmStartSettings):
                    scaffold = spec.scaffold
                    checkpoint = save_warm_start(checkpoint, scaffold, config, folder)
            with tf.Graph().as_default():
                saver = v1.train.import_meta_graph(served.meta_graph)
                names = {variable.op.name for variable in v1.global_variables()}
                _check_variables(mode, names, written)
                with v1.Session(config=complete_config(config.session_config)) as session:
                    restore_variables(session, saver, checkpoint)
                    _add_graph(builder, session, saver, served, first=not written)
                written = written or names
        builder.save(as_text)
        _copy_assets(assets, unfinished)
    log.info("Exported %s to %s", checkpoint, finished)
    return finished.encode()


def remove_unfinished(export_dir_base: str, before: float) -> list[str]:
    """Removes the directories of killed exports that began before a time; returns their names."""
    gfile = tf.io.gfile
    base = export_dir_base.rstrip("/")
    names = gfile.listdir(base) if gfile.isdir(base) else []
    matches = [_UNFINISHED.fullmatch(name.rstrip("/")) for name in names]
    removed = sorted(match[0] for match in matches if match and int(match[1]) < before)
    with disk_errors(f"Cannot remove the unfinished exports {removed} from {base}"):
        for name in removed:
            gfile.rmtree(f"{base}/{name}")
    if removed:
        log.info("Removed what killed exports left in %s: %s", base, removed)
    return removed


def signatures(mode: str, receiver: Any, spec: EstimatorSpec) -> dict[str, Any]:
    """Returns the SignatureDef for each way to feed the model and each of its outputs.

    An output that cannot be computed from an input is left out, with a warning.

    Raises:
      ValueError: No signature is left.
    """
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    inputs = {"": receiver.receiver_tensors}
    inputs.update({f"{name}:": tensors for name, tensors in alternatives.items()})
    made, left_out = {}, {}
    for prefix, tensors in inputs.items():
        for name, output in _outputs(mode, spec).items():
            try:
                made[prefix + name] = output.as_signature_def(tensors)
            except ValueError as error:
                left_out[prefix + name] = str(error)
    for name, reason in left_out.items():
        log.warning("The exported model has no signature %r: %s", name, reason)
    if not made:
        raise ValueError(
            f"Cannot export in mode {mode!r}: the model has no signature that its inputs can feed. "
            f"{' '.join(left_out.values()) or 'Return predictions from model_fn.'}"
        )
    if mode == ModeKeys.PREDICT and DEFAULT_SIGNATURE not in made:
        log.warning("The exported model has no default signature, only %s", sorted(made))
    return made


def _outputs(mode: str, spec: EstimatorSpec) -> dict[str, ExportOutput]:
    if mode == ModeKeys.PREDICT:
        return completed_outputs(spec.export_outputs, spec.predictions)
    kind = TrainOutput if mode == ModeKeys.TRAIN else EvalOutput
    return {mode: kind(spec.loss, spec.predictions, spec.eval_metric_ops)}


def _served_graph(mode: str, receiver: Any, spec: EstimatorSpec) -> ServedGraph:
    """Returns a copy of the default graph for serving: with its saver, without its devices."""
    main_op = spec.scaffold.local_init_op or v1.train.Scaffold.default_local_init_op()
    saver = spec.scaffold.saver or v1.train.Saver()
    if mode == ModeKeys.TRAIN:
        v1.get_collection_ref(v1.GraphKeys.TRAIN_OP)[:] = [spec.train_op]
    made = signatures(mode, receiver, spec)
    meta_graph = v1.train.export_meta_graph(saver_def=saver.as_saver_def(), clear_devices=True)
    for function in meta_graph.graph_def.library.function:
        for node in function.node_def:
            node.device = ""
    return ServedGraph(TAGS[mode], meta_graph, made, main_op.name)


def _add_graph(
    builder: v1.saved_model.Builder,
    session: v1.Session,
    saver: v1.train.Saver,
    served: ServedGraph,
    first: bool,
) -> None:
    """Adds the default graph to the SavedModel; the first graph comes with the variables."""
    graph = {
        "tags": [served.tag],
        "signature_def_map": served.signatures,
        "assets_collection": v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        "main_op": v1.get_default_graph().get_operation_by_name(served.main_op),
        "strip_default_attrs": True,
        "saver": saver,
    }
    if first:
        builder.add_meta_graph_and_variables(session, **graph)
    else:
        builder.add_meta_graph(**graph)


@contextlib.contextmanager
def _new_version(base: str) -> Iterator[tuple[str, str]]:
    """Yields the temporary path of an export and its final path; renames it at the end."""
    gfile = tf.io.gfile
    base = base.rstrip("/")
    version = int(time.time())
    while gfile.exists(f"{base}/{version}") or gfile.exists(f"{base}/temp-{version}"):
        version += 1
    unfinished, finished = f"{base}/temp-{version}", f"{base}/{version}"
    try:
        yield unfinished, finished
        gfile.rename(unfinished, finished)
    except BaseException:
        if gfile.exists(unfinished):
            gfile.rmtree(unfinished)
        raise


def _check_modes(receiver_fns: Mapping[str, Any]) -> None:
    unknown = sorted(set(map(str, receiver_fns)) - set(TAGS))
    if unknown or not receiver_fns:
        raise ValueError(
            f"Cannot export: the modes to export are {unknown or 'none'}, and must be some of "
            f"{list(TAGS)}. Give an input receiver function for at least one of replicate.ModeKeys."
        )


def _check_variables(mode: str, names: set[str], written: set[str]) -> None:
    missing = sorted(names - written)
    if written and missing:
        raise ValueError(
            f"Cannot export mode {mode!r} together with the others: its variables {missing} are "
            "not in the first exported mode, whose variables are written. Export it by itself."
        )


def _checked_assets(assets: Mapping[str, str]) -> dict[str, str]:
    for target, source in assets.items():
        path = pathlib.PurePosixPath(target)
        if not path.name or path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"Cannot export the asset {target!r}: its name must be a path inside assets.extra, "
                "such as 'vocabulary.txt'. Correct the key in assets_extra."
            )
        if not tf.io.gfile.exists(source):
            raise ValueError(
                f"Cannot export the asset {target!r}: its file {source!r} does not exist. Correct "
                "the path in assets_extra."
            )
    return dict(assets)


def _copy_assets(assets: Mapping[str, str], directory: str) -> None:
    for target, source in assets.items():
        path = f"{directory}/assets.extra/{target}"
        tf.io.gfile.makedirs(path.rpartition("/")[0])
        tf.io.gfile.copy(source, path)
