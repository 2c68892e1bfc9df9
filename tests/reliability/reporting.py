"""Makes the tasks of a program, which runs as it stands, print what they do.

This text runs in a task before the program. Each call of `Estimator.train` then prints "building"
when its graph is complete, "begun" when it has a session, "step N" after each step and "saving N"
when the chief begins to save; `Estimator.evaluate` prints "evaluating". After each line there is
some time, in which a test can kill a task.
"""

import time

import tensorflow as tf

import replicate

v1 = tf.compat.v1


def report(text):
    print(text, flush=True)
    time.sleep(0.02)


class Report(v1.train.SessionRunHook):
    def begin(self):
        self._step = v1.train.get_global_step()
        report("building")

    def after_create_session(self, session, coord):
        report("begun")

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        report(f"step {int(run_values.results)}")


class ReportSaving(v1.train.CheckpointSaverListener):
    def before_save(self, session, global_step_value):
        report(f"saving {global_step_value}")


class ReportEvaluation(v1.train.SessionRunHook):
    def after_create_session(self, session, coord):
        report("evaluating")


train, evaluate = replicate.Estimator.train, replicate.Estimator.evaluate


def reporting_train(self, input_fn, hooks=None, *args, saving_listeners=None, **kwargs):
    listeners = [*(saving_listeners or ()), ReportSaving()]
    hooks = [*(hooks or ()), Report()]
    return train(self, input_fn, hooks, *args, saving_listeners=listeners, **kwargs)


def reporting_evaluate(self, input_fn, steps=None, hooks=None, **kwargs):
    return evaluate(self, input_fn, steps, [*(hooks or ()), ReportEvaluation()], **kwargs)


replicate.Estimator.train = reporting_train
replicate.Estimator.evaluate = reporting_evaluate
