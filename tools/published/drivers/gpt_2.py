"""Trains a tiny GPT-2 on digits, and leaves a checkpoint for the programs that write texts."""

import json
import os
import sys

import model
import numpy as np
import tensorflow as tf


def main():
    """Trains for a few steps, and prints the loss of each."""
    folder = sys.argv[1]
    os.makedirs(folder)
    hparams = model.default_hparams()
    settings = {"n_vocab": 11, "n_ctx": 16, "n_embd": 8, "n_head": 2, "n_layer": 2}
    hparams.override_from_dict(settings)
    numbers = {**{str(digit): digit for digit in range(10)}, "<|endoftext|>": 10}
    for name, text in (
        ("hparams.json", json.dumps(settings)),
        ("encoder.json", json.dumps(numbers)),
        ("vocab.bpe", "#version: 0.2\n1 2\n"),
    ):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    tokens = tf.constant((np.arange(16)[None] + np.arange(4)[:, None]) % 10, tf.int32)
    logits = model.model(hparams=hparams, X=tokens)["logits"]
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits[:, :-1])
    )
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(10):
            print("loss =", session.run([loss, train_op])[0])
        tf.train.Saver().save(session, os.path.join(folder, "model.ckpt"))


if __name__ == "__main__":
    main()
