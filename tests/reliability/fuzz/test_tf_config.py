"""TF_CONFIG: any text describes a cluster that can be used, or gives one error."""

import json

import pytest

import replicate
from replicate.estimator.cluster_config import parse_cluster_config
from replicate.roles import TaskType

CLUSTERS = (
    {"chief": ["10.0.0.1:2222"], "worker": ["h2:2222", "h3:2222"], "ps": ["h4:1", "h5:65535"]},
    {"master": ["a:1"], "worker": [], "ps": ["[::1]:2"]},
    {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"], "evaluator": ["d:1"]},
    {"chief": ["localhost:1"]},
    {},
)
TASKS = tuple(
    {"type": kind, "index": index}
    for kind in ("chief", "master", "worker", "ps", "evaluator")
    for index in (0, 1, "0")
)


def change_index(draw, damage, value):
    """Gives the task another index."""
    index = draw.choice((*damage.odd_texts, *damage.extreme_numbers, "-9" + "9" * 4000))
    return {**value, "task": {**value["task"], "index": index}}


def respell_address(draw, damage, value):
    """Lists an address a second time, in another spelling or with an odd host."""
    addresses = [address for tasks in value["cluster"].values() for address in tasks]
    host, _, port = draw.choice(addresses or ["a:1"]).rpartition(":")
    host = draw.choice((host, host.upper(), damage.text(draw, host), "\ud800", "x" * 300))
    port = draw.choice((port, f"0{port}", f"{int(port) + 2**16}", damage.text(draw, port)))
    job = draw.choice(("worker", "ps", "evaluator"))
    tasks = [*value["cluster"].get(job, []), f"{host}:{port}"]
    return {**value, "cluster": {**value["cluster"], job: tasks}}


def keep(draw, damage, value):
    """Changes nothing."""
    return value


CHANGES = (change_index, respell_address, keep, keep)


def config(draw, damage):
    """Returns a TF_CONFIG as text: one that fits, with up to three changes."""
    value = {"cluster": draw.choice(CLUSTERS), "task": draw.choice(TASKS)}
    if draw.random() < 0.3:
        value |= {"service": {"a": [1]}, "model_dir": "runs/a", "session_master": "grpc://a:1"}
    value = draw.choice(CHANGES)(draw, damage, value)
    for _ in range(draw.randrange(3)):
        value = damage.value(draw, value)
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5)
    if draw.random() < 0.2:
        return damage.bytes(draw, text.encode(errors="surrogatepass")).decode(errors="replace")
    return text


def check(found):
    """Uses a cluster as a run does."""
    assert found.task_type in vars(TaskType).values()
    assert found.task_id >= 0
    addresses = [address for tasks in found.jobs.values() for address in tasks]
    places = [(a.rpartition(":")[0].lower(), int(a.rpartition(":")[2])) for a in addresses]
    assert len(set(places)) == len(places), "two tasks have the same address"
    found.cluster_spec.as_cluster_def()
    assert isinstance(found.master, str)
    assert isinstance(found.evaluation_master, str)
    assert found.num_ps_replicas >= 0
    assert found.num_worker_replicas >= 0
    settings = replicate.RunConfig(cluster=found, model_dir=found.model_dir)
    assert settings.is_chief == found.is_chief
    json.dumps(settings.as_dict(), default=str).encode()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_tf_config(fuzz, cases, damage, refuses):
    def play(draw):
        text = config(draw, damage)
        with refuses(replicate.ClusterConfigError):
            found = parse_cluster_config(text)
        check(found)

    fuzz("tf_config", cases, play, limit_secs=20)
