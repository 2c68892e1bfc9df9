"""TensorFlow's session hooks, under the names that tf.estimator had for them.

They are the classes of `tf.compat.v1.train` themselves. Replace `tf.estimator.LoggingTensorHook` by
`replicate.LoggingTensorHook`: a hook written for one works with the other. This project's own hooks
are in `replicate.estimator`.
"""

import tensorflow as tf

v1 = tf.compat.v1

CheckpointSaverHook = v1.train.CheckpointSaverHook
CheckpointSaverListener = v1.train.CheckpointSaverListener
FeedFnHook = v1.train.FeedFnHook
FinalOpsHook = v1.train.FinalOpsHook
GlobalStepWaiterHook = v1.train.GlobalStepWaiterHook
LoggingTensorHook = v1.train.LoggingTensorHook
NanLossDuringTrainingError = v1.train.NanLossDuringTrainingError
NanTensorHook = v1.train.NanTensorHook
ProfilerHook = v1.train.ProfilerHook
SecondOrStepTimer = v1.train.SecondOrStepTimer
SessionRunArgs = v1.train.SessionRunArgs
SessionRunContext = v1.train.SessionRunContext
SessionRunHook = v1.train.SessionRunHook
SessionRunValues = v1.train.SessionRunValues
StepCounterHook = v1.train.StepCounterHook
StopAtStepHook = v1.train.StopAtStepHook
SummarySaverHook = v1.train.SummarySaverHook
