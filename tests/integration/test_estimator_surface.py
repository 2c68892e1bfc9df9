"""The names and arguments that programs written for tf.estimator use."""

import inspect

import pytest

import replicate
import replicate.export
import replicate.inputs

ARGUMENTS = {
    "Estimator": "model_fn model_dir config params warm_start_from",
    "Estimator.train": "input_fn hooks steps max_steps saving_listeners",
    "Estimator.evaluate": "input_fn steps hooks checkpoint_path name",
    "Estimator.predict": "input_fn predict_keys hooks checkpoint_path yield_single_examples",
    "Estimator.export_saved_model": "export_dir_base serving_input_receiver_fn assets_extra as_text"
    " checkpoint_path experimental_mode",
    "Estimator.export_savedmodel": "export_dir_base serving_input_receiver_fn assets_extra as_text"
    " checkpoint_path strip_default_attrs",
    "Estimator.experimental_export_all_saved_models": "export_dir_base input_receiver_fn_map"
    " assets_extra as_text checkpoint_path",
    "Estimator.eval_dir": "name",
    "Estimator.get_variable_value": "name",
    "EstimatorSpec": "mode predictions loss train_op eval_metric_ops export_outputs"
    " training_chief_hooks training_hooks scaffold evaluation_hooks prediction_hooks",
    "TrainSpec": "input_fn max_steps hooks saving_listeners",
    "EvalSpec": "input_fn steps name hooks exporters start_delay_secs throttle_secs",
    "train_and_evaluate": "estimator train_spec eval_spec",
    "FinalExporter": "name serving_input_receiver_fn assets_extra as_text",
    "LatestExporter": "name serving_input_receiver_fn assets_extra as_text exports_to_keep",
    "BestExporter": "name serving_input_receiver_fn event_file_pattern compare_fn assets_extra"
    " as_text exports_to_keep",
    "BestExporter.export": "estimator export_path checkpoint_path eval_result is_the_final_export",
    "WarmStartSettings": "ckpt_to_initialize_from vars_to_warm_start var_name_to_vocab_info"
    " var_name_to_prev_var_name",
    "VocabInfo": "new_vocab new_vocab_size num_oov_buckets old_vocab old_vocab_size"
    " backup_initializer axis",
    "add_metrics": "estimator metric_fn",
    "InMemoryEvaluatorHook": "estimator input_fn steps hooks name every_n_iter",
    "make_early_stopping_hook": "estimator should_stop_fn run_every_secs run_every_steps",
    "make_stop_at_checkpoint_step_hook": "estimator last_step wait_after_file_check_secs",
    "stop_if_higher_hook": "estimator metric_name threshold eval_dir min_steps run_every_secs"
    " run_every_steps",
    "stop_if_no_increase_hook": "estimator metric_name max_steps_without_increase eval_dir"
    " min_steps run_every_secs run_every_steps",
    "read_eval_metrics": "eval_dir",
    "export.ServingInputReceiver": "features receiver_tensors receiver_tensors_alternatives",
    "export.build_raw_serving_input_receiver_fn": "features default_batch_size",
    "export.build_parsing_serving_input_receiver_fn": "feature_spec default_batch_size",
    "export.ClassificationOutput": "scores classes",
    "export.RegressionOutput": "value",
    "export.PredictOutput": "outputs",
    "inputs.numpy_input_fn": "x y batch_size num_epochs shuffle queue_capacity num_threads",
    "inputs.pandas_input_fn": "x y batch_size num_epochs shuffle queue_capacity num_threads"
    " target_column",
}
"""Arguments in the order of TensorFlow 2.15."""

SETTINGS = (
    "model_dir tf_random_seed save_summary_steps save_checkpoints_steps save_checkpoints_secs"
    " session_config keep_checkpoint_max keep_checkpoint_every_n_hours log_step_count_steps"
    " train_distribute device_fn protocol eval_distribute experimental_distribute"
    " experimental_max_worker_delay_secs session_creation_timeout_secs checkpoint_save_graph_def"
)


@pytest.mark.parametrize("path", ARGUMENTS)
def test_arguments_are_those_of_tf_estimator(path):
    found = replicate
    for name in path.split("."):
        found = getattr(found, name)
    names = [name for name in inspect.signature(found).parameters if name != "self"]
    assert names == ARGUMENTS[path].split()


def test_settings_by_position_are_those_of_tf_estimator():
    parameters = inspect.signature(replicate.RunConfig).parameters.values()
    by_position = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert by_position == SETTINGS.split()


@pytest.mark.parametrize("name", ["train_distribute", "eval_distribute", "experimental_distribute"])
def test_settings_of_tf_distribute_are_strategies_or_none(name):
    config = replicate.RunConfig(**{name: None})
    assert getattr(config.replace(**{name: None}), name) is None
    for make in (replicate.RunConfig, config.replace):
        with pytest.raises((ValueError, TypeError), match=f"{name} must be a .* or None"):
            make(**{name: object()})
