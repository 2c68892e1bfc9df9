"""Model directories: a run continues from a checkpoint that is intact, bit for bit, or refuses.

The directory has checkpoints of three steps, each with its input position. Their values follow from
the step. A case damages some files, then trains, evaluates or starts warm.
"""

import contextlib
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1
STEPS = (10, 20, 30)
SIZE = 700
"""Numbers of the larger variable, so that the data file has more bytes than the index."""

pytestmark = pytest.mark.usefixtures("plain_sessions")


def values_at(step):
    """Returns the variables of the model after a number of steps."""
    return {
        "large": np.arange(SIZE, dtype=np.float32) + np.float32(step) / 8,
        "small": np.full([2, 3], step, np.float64),
        "global_step": np.int64(step),
    }


def model_fn(features, labels, mode):
    def large_start(shape, dtype=None, partition_info=None):
        return tf.range(SIZE, dtype=dtype)

    with v1.device("/cpu:0"):
        large = v1.get_variable("large", [SIZE], initializer=large_start)
    with v1.device("/cpu:1"):
        small = v1.get_variable("small", [2, 3], tf.float64, v1.zeros_initializer())
    step = v1.train.get_global_step()
    with v1.control_dependencies([large.assign_add(tf.fill([SIZE], 1 / 8))]):
        moved = small.assign_add(tf.ones([2, 3], tf.float64))
    with v1.control_dependencies([moved]):
        train_op = step.assign_add(1)
    loss = tf.reduce_mean(tf.cast(features, tf.float32))
    metrics = {
        "large": v1.metrics.mean(large.read_value()[-1]),
        "small": v1.metrics.mean(small.read_value()),
    }
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    return tf.data.Dataset.range(1000).shuffle(50, seed=1).batch(2)


class Start(v1.train.SessionRunHook):
    """Keeps the values that a run starts with."""

    def begin(self):
        self._variables = {v.op.name: v for v in v1.global_variables()}

    def after_create_session(self, session, coord):
        self.values = session.run(self._variables)


class Interrupt(v1.train.SessionRunHook):
    """Ends a run with an error at a step, after a save."""

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        if run_values.results > STEPS[-1]:
            raise InterruptedError


def make_estimator(folder, **options):
    config = replicate.RunConfig(
        save_checkpoints_steps=STEPS[0],
        save_summary_steps=None,
        checkpoint_save_graph_def=False,
        progress="off",
        tf_random_seed=1,
    )
    return replicate.Estimator(model_fn, str(folder), config, **options)


def write_sharded(whole, folder):
    """Writes the same checkpoints in two data files each, as a cluster does."""
    folder.mkdir()
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {}
        for number, (name, value) in enumerate(values_at(0).items()):
            with v1.device(f"/cpu:{number % 2}"):
                variables[name] = v1.Variable(value, name=name)
        saver = v1.train.Saver(variables, sharded=True, save_relative_paths=True)
        for step in STEPS:
            for name, value in values_at(step).items():
                variables[name].load(value, session)
            saver.save(session, f"{folder}/model.ckpt", step, write_meta_graph=False)
    for path in whole.glob("*.input_position"):
        shutil.copy(path, folder)


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Directories of an interrupted run: checkpoints in one data file, and in two."""
    whole = tmp_path_factory.mktemp("whole")
    with pytest.raises(InterruptedError):
        make_estimator(whole).train(input_fn, hooks=[Interrupt()])
    (whole / "model.ckpt-0.index").unlink()
    for path in whole.glob("model.ckpt-0.*"):
        path.unlink()
    lines = [f'all_model_checkpoint_paths: "model.ckpt-{step}"\n' for step in STEPS]
    (whole / "checkpoint").write_text(
        f'model_checkpoint_path: "model.ckpt-{STEPS[-1]}"\n' + "".join(lines)
    )
    assert len(list(whole.glob("model.ckpt-*.input_position"))) == len(STEPS)
    sharded = tmp_path_factory.mktemp("sharded") / "run"
    write_sharded(whole, sharded)
    for second, path in enumerate([*whole.iterdir(), *sharded.iterdir()]):
        os.utime(path, (second, second))  # As if each file had been written at another time.
    return whole, sharded


def contents(folder):
    """Returns the bytes of each file, the target of each link, and None for directories."""

    def content(path):
        if path.is_symlink():
            return os.readlink(path)
        return path.read_bytes() if path.is_file() else None

    return {path.name: content(path) for path in folder.iterdir()}


def files_of(files, step):
    """Returns index and data of a checkpoint."""
    parts = (f"model.ckpt-{step}.index", f"model.ckpt-{step}.data-")
    return {name: content for name, content in files.items() if name.startswith(parts)}


# Changes of a directory.


def pick(draw, folder):
    """Returns a file, most often of the newest checkpoint."""
    paths = sorted(folder.iterdir())
    newest = [path for path in paths if path.name.startswith(f"model.ckpt-{STEPS[-1]}.")]
    core = [path for path in newest if ".data" in path.name or path.name.endswith(".index")]
    state = [path for path in paths if path.name == "checkpoint"]
    return draw.choice(draw.choice((core, core, newest, paths, state)) or paths)


def change_bytes(draw, damage, folder):
    path = pick(draw, folder)
    if path.is_file():
        path.write_bytes(damage.bytes(draw, path.read_bytes()))


def name_another(draw, damage, folder):
    """The state file names other checkpoints."""
    names = [f"model.ckpt-{step}" for step in (*STEPS, 0, 77)]
    names += ["", ".", "..", "/absent/model.ckpt-3", "a\\nb", "ü", f"{folder}/model.ckpt-20"]
    listed = [draw.choice((*names, "model.ckpt-10")) for _ in range(draw.randrange(4))]
    lines = [f'model_checkpoint_path: "{draw.choice(names)}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in listed]
    with contextlib.suppress(IsADirectoryError):
        (folder / "checkpoint").write_text("\n".join(lines[draw.randrange(2) :]))


def change_position(draw, damage, folder):
    """Numbers of an input position become others; its checksum still holds."""
    path = folder / f"model.ckpt-{draw.choice(STEPS)}.input_position"
    if path.is_file():
        line, _, state = path.read_bytes().partition(b"\n")
        with contextlib.suppress(ValueError):
            numbers = damage.value(draw, json.loads(line))
            path.write_bytes(json.dumps(numbers).encode() + b"\n" + state)


def exchange(first, second, keeps=True):
    """Two paths change their names, or the first one takes the place of the second."""
    between = first.with_name("between")
    first.rename(between)
    second.rename(first)
    if keeps:
        between.rename(second)
    else:
        between.unlink() if not between.is_dir() else between.rmdir()


def suffix_of(path):
    return path.name.partition(".ckpt-")[2].partition(".")[2]


def swap(draw, damage, folder):
    """Files of one kind change their places: those of two checkpoints, or two parts of the data."""
    path = pick(draw, folder)
    kind = suffix_of(path).partition("-")[0]
    alike = [other for other in sorted(folder.glob(f"*.{kind}*")) if other != path]
    if kind and alike:
        exchange(path, draw.choice(alike), keeps=draw.random() < 0.7)


def swap_checkpoints(draw, damage, folder):
    """Two checkpoints change their names, as wholes."""
    one, other = draw.sample(STEPS, 2)
    suffixes = [suffix_of(path) for path in sorted(folder.glob(f"model.ckpt-{one}.*"))]
    if draw.random() < 0.3:
        suffixes = [suffix for suffix in suffixes if suffix != "input_position"]
    for suffix in suffixes:
        first, second = (folder / f"model.ckpt-{step}.{suffix}" for step in (one, other))
        if second.exists():
            exchange(second, first)


def replace(draw, damage, folder):
    """A directory or a link takes the place of a file, or the file is lost."""
    odd = ("run.json", "graph.pbtxt", "training_ended", "checkpoint.saving", "checkpoint")
    damage.path(draw, draw.choice((pick(draw, folder), folder / draw.choice(odd))))


def add_file(draw, damage, folder):
    """Files of no checkpoint, or of one that is not whole."""
    name = draw.choice(
        (
            *("model.ckpt-40.index", "model.ckpt-40.data-00000-of-00001", "other.index"),
            *("model.ckpt-99999999999999999999999.index", ".index", "model.ckpt-.index"),
            *("model.ckpt-30.index.corrupt", "checkpoint.tmp_x", "model.ckpt-40_temp"),
            *("model.ckpt-30.data-00001-of-00002", "ü.index", "model.ckpt-٣.index"),
        )
    )
    path = folder / name
    if not path.exists():
        path.write_bytes(draw.choice((b"", b"x", draw.randbytes(100))))


CHANGES = (
    *(change_bytes,) * 10,
    *(name_another, name_another, change_position, change_position),
    *(swap, swap, swap, swap_checkpoints, replace, replace, replace, add_file),
)


# Uses of a directory.


def train(folder, before, draw):
    """Trains one step; returns the values at its start."""
    start = Start()
    make_estimator(folder).train(input_fn, hooks=[start], steps=1)
    step = int(start.values["global_step"])
    after = tf.train.load_checkpoint(replicate.Estimator(model_fn, str(folder)).latest_checkpoint())
    for name, value in values_at(step + 1).items():
        np.testing.assert_array_equal(after.get_tensor(name), value)
    return start.values


def evaluate(folder, before, draw):
    """Evaluates the newest checkpoint."""
    found = make_estimator(folder).evaluate(input_fn, steps=1)
    assert found["large"] == values_at(found["global_step"])["large"][-1]
    assert found["small"] == found["global_step"]
    assert contents(folder) == before | {"eval": None}
    return values_at(found["global_step"])


def start_warm(folder, before, draw):
    """Starts a run elsewhere with the values of the newest checkpoint, or of a given one."""
    start = Start()
    fresh = folder.with_name("fresh")
    source = draw.choice((folder, folder / f"model.ckpt-{STEPS[-1]}"))
    estimator = make_estimator(
        fresh, warm_start_from=replicate.WarmStartSettings(source, ["large", "small"])
    )
    estimator.train(input_fn, hooks=[start], steps=1)
    assert contents(folder) == before
    step = int(start.values["small"][0, 0])
    return {**start.values, "global_step": np.int64(step)}


def check_kept(before, after, templates):
    """Raises AssertionError if a checkpoint that is as it was written is lost."""
    for template in templates:
        written = contents(template)
        for step in STEPS:
            files = files_of(written, step)
            if files.items() <= before.items():
                assert files.items() <= after.items(), f"checkpoint {step} is lost"


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("cases", [5, pytest.param(2_000, marks=pytest.mark.slow)])
def test_checkpoints(fuzz, cases, damage, refuses, templates, tmp_path):
    def play(draw):
        folder = tmp_path / "run" / "dir"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder.parent)
        shutil.copytree(draw.choice(templates), folder)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            draw.choice(CHANGES)(draw, damage, folder)
        before = contents(folder)
        use = draw.choice((train, train, train, evaluate, start_warm))
        try:
            with refuses(replicate.CheckpointError, ValueError):
                start = use(folder, before, draw)
        except Exception:
            check_kept(before, contents(folder), templates)
            raise
        check_kept(before, contents(folder), templates)
        step = int(start["global_step"])
        assert step in STEPS, f"starts at step {step}"
        for name, value in values_at(step).items():
            np.testing.assert_array_equal(start[name], value, err_msg=name)

    fuzz("checkpoints", cases, play, expected=("ok",))
