"""A program of 2017 in the style of slim's classifiers: it reads pictures, trains and evaluates."""

PROGRAM = '''
"""Classifies pictures by their colour."""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib.framework.python.ops import variables as contrib_variables
from tensorflow.contrib.slim.python.slim.data import dataset, dataset_data_provider
from tensorflow.contrib.slim.python.slim.data import tfexample_decoder

slim = tf.contrib.slim
flags = tf.app.flags
flags.DEFINE_string('train_dir', None, 'Where logs and checkpoints are written.')
flags.DEFINE_integer('batch_size', 8, 'Samples in a batch.')
FLAGS = flags.FLAGS
SIZE = 8


def write_records(path, count):
    random = np.random.RandomState(0)
    with tf.Session(graph=tf.Graph()) as sess, tf.python_io.TFRecordWriter(path) as writer:
        pixels = tf.placeholder(tf.uint8, [SIZE, SIZE, 3])
        encoders = [(b'png', tf.image.encode_png(pixels)),
                    (b'jpeg', tf.image.encode_jpeg(pixels, quality=100))]
        for i in range(count):
            label = i % 2
            picture = np.full([SIZE, SIZE, 3], 60 + 120 * label) + random.randint(0, 9, [1, 1, 3])
            name, encoded = encoders[i // 2 % 2]
            encoded = tf.train.BytesList(value=[sess.run(encoded, {pixels: picture})])
            feature = {
                'image/encoded': tf.train.Feature(bytes_list=encoded),
                'image/format': tf.train.Feature(bytes_list=tf.train.BytesList(value=[name])),
                'image/class/label': tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            for side in ('ymin', 'xmin', 'ymax', 'xmax'):
                feature['image/object/bbox/' + side] = tf.train.Feature(
                    float_list=tf.train.FloatList(value=[.1, .2]))
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def get_dataset(path, count):
    keys_to_features = {
        'image/encoded': tf.FixedLenFeature((), tf.string, default_value=''),
        'image/format': tf.FixedLenFeature((), tf.string, default_value='png'),
        'image/class/label': tf.FixedLenFeature(
            [], tf.int64, default_value=tf.zeros([], dtype=tf.int64)),
        'image/object/bbox/ymin': tf.VarLenFeature(tf.float32),
        'image/object/bbox/xmin': tf.VarLenFeature(tf.float32),
        'image/object/bbox/ymax': tf.VarLenFeature(tf.float32),
        'image/object/bbox/xmax': tf.VarLenFeature(tf.float32),
    }
    items_to_handlers = {
        'image': slim.tfexample_decoder.Image(shape=[SIZE, SIZE, 3]),
        'label': slim.tfexample_decoder.Tensor('image/class/label', shape=[]),
        'object/bbox': tfexample_decoder.BoundingBox(
            ['ymin', 'xmin', 'ymax', 'xmax'], 'image/object/bbox/'),
    }
    decoder = slim.tfexample_decoder.TFExampleDecoder(keys_to_features, items_to_handlers)
    return dataset.Dataset(
        data_sources=path, reader=tf.TFRecordReader, decoder=decoder, num_samples=count,
        items_to_descriptions={'image': 'a picture', 'label': 'dark or bright'}, num_classes=2)


def load_batch(records, is_training):
    provider = dataset_data_provider.DatasetDataProvider(
        records, num_readers=1, common_queue_capacity=32, common_queue_min=8, shuffle=is_training)
    image, label, box = provider.get(['image', 'label', 'object/bbox'])
    with tf.control_dependencies([tf.assert_equal(tf.shape(box), [2, 4])]):
        image = tf.to_float(image) / 255. - 0.5
    images, labels = tf.train.batch([image, label], FLAGS.batch_size, num_threads=1, capacity=32)
    labels = slim.one_hot_encoding(labels, records.num_classes)
    queue = slim.prefetch_queue.prefetch_queue([images, labels], capacity=2)
    return queue.dequeue()


def arg_scope(weight_decay=1e-4, is_training=True):
    batch_norm_params = {'decay': 0.5, 'epsilon': 0.001, 'is_training': is_training, 'scale': True}
    with slim.arg_scope([slim.conv2d, slim.fully_connected],
                        weights_regularizer=slim.l2_regularizer(weight_decay),
                        weights_initializer=slim.variance_scaling_initializer()):
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm,
                            normalizer_params=batch_norm_params):
            with slim.arg_scope([slim.max_pool2d], padding='SAME') as sc:
                return sc


def net(images, num_classes, is_training, reuse=None, scope='Net'):
    with tf.variable_scope(scope, 'Net', [images], reuse=reuse) as sc:
        collection = sc.name + '_end_points'
        with slim.arg_scope([slim.conv2d, slim.max_pool2d], outputs_collections=collection):
            net = slim.repeat(images, 2, slim.conv2d, 4, [3, 3], scope='conv1')
            net = slim.max_pool2d(net, [2, 2], scope='pool1')
            net = slim.separable_conv2d(net, 8, [3, 3], depth_multiplier=1,
                                        normalizer_fn=slim.batch_norm, scope='conv2')
        net = slim.flatten(net)
        net = slim.dropout(net, 0.9, is_training=is_training, scope='dropout')
        logits = slim.fully_connected(net, num_classes, activation_fn=None, scope='logits')
        end_points = slim.utils.convert_collection_to_dict(collection)
        end_points['Predictions'] = slim.softmax(logits, scope='predictions')
        return logits, end_points


def train(path):
    with tf.Graph().as_default():
        records = get_dataset(path, 16)
        tf.set_random_seed(1)
        global_step = slim.get_or_create_global_step()
        images, labels = load_batch(records, True)
        with slim.arg_scope(arg_scope()):
            logits, end_points = net(images, 2, True)
        assert sorted(end_points) == [
            'Net/conv1/conv1_1', 'Net/conv1/conv1_2', 'Net/pool1', 'Predictions']
        slim.losses.softmax_cross_entropy(logits, labels, label_smoothing=0.05, weights=1.0)
        total_loss = slim.losses.get_total_loss()
        for variable in slim.get_model_variables():
            tf.summary.histogram(variable.op.name, variable)
        slim.summaries.add_scalar_summary(total_loss, 'total', 'losses')
        slim.model_analyzer.analyze_vars(tf.trainable_variables(), print_info=False)
        rate = tf.train.exponential_decay(0.05, global_step, 10, 0.9, staircase=True)
        train_op = slim.learning.create_train_op(
            total_loss, tf.train.MomentumOptimizer(rate, 0.9), clip_gradient_norm=4,
            summarize_gradients=True, gradient_multipliers={'Net/logits/biases': 2.0})
        ema = tf.train.ExponentialMovingAverage(0.9, global_step)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, ema.apply(slim.get_model_variables()))
        loss = slim.learning.train(
            train_op, FLAGS.train_dir, log_every_n_steps=20, number_of_steps=40,
            save_summaries_secs=1, save_interval_secs=60,
            session_config=tf.ConfigProto(intra_op_parallelism_threads=2))
        names = [v.op.name for v in slim.get_model_variables('Net/conv1/conv1_1')]
        print('loss', loss < 0.4, sorted(names))


def evaluate(path, once):
    with tf.Graph().as_default():
        records = get_dataset(path, 16)
        contrib_variables.get_or_create_global_step()
        images, labels = load_batch(records, False)
        with slim.arg_scope(arg_scope(is_training=False)):
            logits, _ = net(images, 2, False)
        truth, predictions = tf.argmax(labels, 1), tf.argmax(logits, 1)
        names_to_values, names_to_updates = slim.metrics.aggregate_metric_map({
            'accuracy': slim.metrics.streaming_accuracy(predictions, truth),
            'recall': slim.metrics.streaming_recall(predictions, truth),
            'mse': tf.contrib.metrics.streaming_mean_squared_error(predictions, truth),
        })
        summaries = [tf.summary.scalar('eval/' + name, value, collections=[])
                     for name, value in names_to_values.items()]
        arguments = dict(
            num_evals=2, eval_op=list(names_to_updates.values()),
            summary_op=tf.summary.merge(summaries),
            final_op=[names_to_values['accuracy'], names_to_values['mse']],
            variables_to_restore=slim.get_variables_to_restore())
        logdir = os.path.join(FLAGS.train_dir, 'eval')
        if once:
            checkpoint = tf.train.latest_checkpoint(FLAGS.train_dir)
            return slim.evaluation.evaluate_once('', checkpoint, logdir, **arguments)
        return slim.evaluation.evaluation_loop(
            '', FLAGS.train_dir, logdir, eval_interval_secs=0, max_number_of_evaluations=1,
            timeout=5, **arguments)


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    path = os.path.join(FLAGS.train_dir, 'records')
    write_records(path, 16)
    train(path)
    print('once', [round(float(each), 2) for each in evaluate(path, True)])
    print('loop', [round(float(each), 2) for each in evaluate(path, False)])


if __name__ == '__main__':
    tf.app.run()
'''


def test_program_trains_and_evaluates(run_tensorflow1, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = run_tensorflow1(tmp_path, "program.py", f"--train_dir={tmp_path}")
    names = [
        f"Net/conv1/conv1_1/BatchNorm/{name}"
        for name in ("beta", "gamma", "moving_mean", "moving_variance")
    ]
    assert f"loss True {[*names, 'Net/conv1/conv1_1/weights']}" in ended.out
    assert "once [1.0, 0.0]" in ended.out
    assert "loop [1.0, 0.0]" in ended.out
    assert "global step 20: loss =" in ended.err
