"""Programs that learn from tables: clicks, incomes, graphs."""

from tools.published.data import tables, words
from tools.published.program import Program

_TF_REPOS = ("lambdaji/tf_repos", "b531ff12cdab65acc9551025f73fade2b6f425a7")
_CTR_FLAGS = (
    "--data_dir={data}",
    "--model_dir={out}/model",
    "--feature_size=20",
    "--field_size=5",
    "--embedding_size=4",
    "--batch_size=16",
    "--num_epochs=2",
    "--deep_layers=8,4",
    "--dropout=1.0,1.0",
    "--num_threads=2",
)

PROGRAMS = (
    Program(
        "tf_repos: DeepFM",
        *_TF_REPOS,
        "Estimator, `train_and_evaluate`",
        ("DeepFM.py", *_CTR_FLAGS),
        tables.libsvm,
        options=("--python2",),
        folder="deep_ctr/Model_pipeline",
    ),
    Program(
        "tf_repos: DCN",
        *_TF_REPOS,
        "Estimator, `contrib.layers`",
        ("DCN.py", *_CTR_FLAGS, "--cross_layers=2"),
        tables.libsvm,
        folder="deep_ctr/Model_pipeline",
    ),
    Program(
        "deep-ctr-prediction: wide_deep",
        "qiaoguan/deep-ctr-prediction",
        "f8d83d6da2ee07158922474d11f444533ec6a7a3",
        "canned Estimators, LoggingTensorHook",
        (
            "-m",
            "official.wide_deep.census_main",
            "--data_dir={data}",
            "--model_dir={out}/model",
            "--train_epochs=2",
            "--epochs_between_evals=1",
            "--nodownload_if_missing",
        ),
        tables.incomes_without_spaces,
        rewritten="official",
    ),
    Program(
        "cloudml-samples: census customestimator",
        "GoogleCloudPlatform/cloudml-samples",
        "efddc4a9898127e55edc0946557aca4bfaf59705",
        "Estimator, `train_and_evaluate`, exporters",
        (
            "-m",
            "trainer.task",
            "--train-files={data}/adult.data",
            "--eval-files={data}/adult.test",
            "--job-dir={out}/model",
            "--train-steps=4",
            "--eval-steps=1",
        ),
        tables.incomes,
        folder="census/customestimator",
    ),
    Program(
        "cloudml-samples: census estimator",
        "GoogleCloudPlatform/cloudml-samples",
        "efddc4a9898127e55edc0946557aca4bfaf59705",
        "DNNLinearCombinedClassifier, exporters",
        (
            "-m",
            "trainer.task",
            "--train-files={data}/adult.data",
            "--eval-files={data}/adult.test",
            "--job-dir={out}/model",
            "--train-steps=4",
            "--eval-steps=1",
        ),
        tables.incomes,
        folder="census/estimator",
    ),
    Program(
        "gcn",
        "tkipf/gcn",
        "39a4089fe72ad9f055ed6fdb9746abdcfebc4d81",
        "Session, sparse placeholders, SciPy",
        ("-m", "gcn.train", "--epochs=3"),
        tables.citations,
        has_estimator=False,
        settings=(("gcn/utils.py", '"data/ind', '"{data}/data/ind'),),
        result=r"train_loss= ([\d.]+)",
        packages=("networkx",),
    ),
    Program(
        "DeepCTR: DeepFMEstimator",
        "shenweichen/DeepCTR",
        "1b5fe40e158d1ee6af8b1d9df217a5ed5aea9136",
        "heads, `canned.optimizers`, `pandas_input_fn`",
        ("run_estimator_pandas_classification.py",),
        words.nothing,
        folder="examples",
        rewritten=".",
        environment={"PYTHONPATH": "{packages}:{source}"},
        result=r"test LogLoss ([\d.]+)",
        packages=("pandas", "sklearn"),
    ),
    Program(
        "TF-Ranking 0.2: libsvm",
        "tensorflow/ranking",
        "2037fe23b708a93db9a2cebd86c34748a2d22d0d",
        "groupwise Estimator, `contrib.layers`, heads",
        (
            "-m",
            "tensorflow_ranking.examples.tf_ranking_libsvm",
            *(
                f"--{part}_path={{source}}/tensorflow_ranking/examples/data/{name}.txt"
                for part, name in (("train", "train"), ("vali", "vali"), ("test", "test"))
            ),
            "--output_dir={out}/model",
            "--num_features=136",
            "--num_train_steps=4",
            "--hidden_layer_dims=8,4",
            "--dropout_rate=0.0",
            "--list_size=5",
        ),
        words.nothing,
    ),
    *(
        Program(
            f"cloudml-samples: {name}",
            "GoogleCloudPlatform/cloudml-samples",
            "efddc4a9898127e55edc0946557aca4bfaf59705",
            uses,
            (
                "trainer.py",
                "--model-dir={out}/model",
                "--max-steps=4",
                "--train-batch-size=8",
                "--save-checkpoints-steps=4",
            ),
            words.nothing,
            folder=f"tpu/templates/{name}",
        )
        for name, uses in (
            ("tpu_estimator", "Estimator, `contrib.data`"),
            ("tpu_cnn_estimator", "Estimator, `tf.layers`"),
            ("tpu_lstm_estimator", "Estimator, RNN cells"),
            ("tpu_film_estimator", "Estimator, `tf.layers`"),
        )
    ),
)
