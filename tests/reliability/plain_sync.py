"""The synchronous training of `trainer.py` in TensorFlow's own MonitoredTrainingSession.

    python plain_sync.py sync MODEL_DIR STEPS PHASE_STEPS

It prints the same lines as `trainer.py`.
"""

import json
import os
import sys

import tensorflow as tf
import trainer

v1 = tf.compat.v1


class Settings:
    """Stands in for the RunConfig that the model of `trainer.py` reads."""

    def __init__(self, cluster, job):
        self.num_worker_replicas = len(cluster["chief"]) + len(cluster["worker"])
        self.is_chief = job == "chief"


def main(mode, folder, steps, phase_steps):
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
    server = v1.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    own, settings = f"/job:{job}/task:{index}", Settings(cluster, job)
    with tf.Graph().as_default():
        with v1.device(v1.train.replica_device_setter(worker_device=own, cluster=cluster)):
            features, labels = v1.data.make_one_shot_iterator(
                trainer.input_fn().repeat()
            ).get_next()
            spec = trainer.model_fn(features, labels, "train", mode, settings)
        hooks = [
            *spec.training_hooks,
            v1.train.StopAtStepHook(last_step=int(steps)),
            trainer.Report(folder, int(steps), int(phase_steps)),
        ]
        with v1.train.MonitoredTrainingSession(
            server.target,
            settings.is_chief,
            folder,
            hooks=hooks,
            config=v1.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", own]),
        ) as session:
            while not session.should_stop():
                session.run(spec.train_op)


if __name__ == "__main__":
    print("imported", flush=True)
    v1.logging.set_verbosity(v1.logging.ERROR)
    main(*sys.argv[1:])
