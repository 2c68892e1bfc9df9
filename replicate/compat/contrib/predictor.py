"""tf.contrib.predictor: a session with an exported model, or an Estimator's, as a function."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1

__all__ = ["Predictor", "from_estimator", "from_saved_model"]

_DEFAULT = "serving_default"


class Predictor:
    """Model in a session; called with a dict of arrays it returns a dict of arrays.

    Attributes:
      graph: The model's graph.
      session: The session, which the caller closes.
      feed_tensors: Input tensors by name.
      fetch_tensors: Output tensors by name.
    """

    def __init__(
        self,
        session: Any,
        feed_tensors: Mapping[str, Tensor],
        fetch_tensors: Mapping[str, Tensor],
    ) -> None:
        """Keeps a session and its tensors."""
        self.session, self.graph = session, session.graph
        self.feed_tensors, self.fetch_tensors = dict(feed_tensors), dict(fetch_tensors)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the model.

        Raises:
          ValueError: A name is not among the inputs.
        """
        unknown = sorted(set(input_dict) - set(self.feed_tensors))
        if unknown:
            raise ValueError(
                f"The predictor got {unknown}, its inputs are {sorted(self.feed_tensors)}."
            )
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        return self.session.run(self.fetch_tensors, feeds)


def from_saved_model(
    export_dir: str,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: Mapping[str, str] | None = None,
    output_names: Mapping[str, str] | None = None,
    tags: str | Iterable[str] | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Makes a predictor of a SavedModel.

    Args:
      export_dir: Folder of the SavedModel.
      signature_def_key: Key of its signature, "serving_default" by default.
      signature_def: A signature to use in place of one of the SavedModel's.
      input_names: Names of the input tensors by names of inputs, in place of a signature.
      output_names: The same of outputs; both are given, or none.
      tags: Tags of its graph, ["serve"] by default; a string has commas between them.
      graph: Graph to load it into; a new one by default.
      config: `tf.ConfigProto` of the session.

    Raises:
      ValueError: The signature is not there, or its ways to be given exclude each other.
    """
    by_names = [input_names, output_names]
    ways = [signature_def_key, signature_def, None if by_names == [None, None] else by_names]
    if sum(each is not None for each in ways) > 1 or by_names.count(None) == 1:
        raise ValueError(
            "Give from_saved_model one of signature_def_key, signature_def, or input_names with "
            f"output_names; got {signature_def_key!r}, {signature_def!r}, {input_names!r} and "
            f"{output_names!r}."
        )
    named = tags.split(",") if isinstance(tags, str) else tags
    graph = graph or tf.Graph()
    with graph.as_default():
        session = v1.Session(config=config)
        loaded = v1.saved_model.load(session, list(named or ["serve"]), export_dir)
    if input_names is None or output_names is None:
        signature = signature_def or _signature(loaded, signature_def_key or _DEFAULT, export_dir)
        input_names = {name: each.name for name, each in signature.inputs.items()}
        output_names = {name: each.name for name, each in signature.outputs.items()}
    return Predictor(session, _tensors(graph, input_names), _tensors(graph, output_names))


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: str | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Makes a predictor of an Estimator, with its newest checkpoint.

    Args:
      estimator: An Estimator that was trained.
      serving_input_receiver_fn: Function of `tf.estimator.export` that makes the inputs.
      output_key: Key of the EstimatorSpec's `export_outputs`; its default one by default.
      graph: Graph to load the model into; a new one by default.
      config: `tf.ConfigProto` of the session.

    Raises:
      ValueError: There is no checkpoint, or no output of that key.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = estimator.export_saved_model(folder, serving_input_receiver_fn)
        return from_saved_model(tf.compat.as_str_any(path), output_key, graph=graph, config=config)


def _signature(loaded: Any, key: str, folder: str) -> Any:
    if key not in loaded.signature_def:
        raise ValueError(
            f"The SavedModel in {folder} has no signature {key!r}, it has "
            f"{sorted(loaded.signature_def)}."
        )
    return loaded.signature_def[key]


def _tensors(graph: Any, names: Mapping[str, str]) -> dict[str, Tensor]:
    return {name: graph.get_tensor_by_name(each) for name, each in names.items()}
