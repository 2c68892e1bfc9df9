"""Addresses, links and the role of a process."""

import json
from unittest import mock

import pytest

from replicate import addresses
from replicate.addresses import connect, host_and_port, is_listening, refuses
from replicate.estimator.cluster_config import ClusterConfig, parse_cluster_config
from replicate.links import leads_out
from replicate.roles import ALONE, ROLES, Role

CLUSTER = {"worker": ["a:2"], "ps": ["a:3"]}


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("a.example:2222", ("a.example", 2222)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:2222", ("::1", 2222)),
    ],
)
def test_an_address_has_two_parts(address, parts):
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["a.example", "a.example:", "a.example:http"])
def test_an_address_without_a_port_is_refused(address):
    for ask in (host_and_port, lambda text: is_listening(text, 1)):
        with pytest.raises(ValueError, match="invalid literal"):
            ask(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_is_listening_follows_the_server(host):
    family = addresses.socket.AF_INET6 if host == "[::1]" else addresses.socket.AF_INET
    try:
        server = addresses.socket.create_server((host.strip("[]"), 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server:
        address = f"{host}:{server.getsockname()[1]}"
        assert is_listening(address, 5)
        assert not refuses(address, 5)
        with connect(address, 5) as line:
            assert line.gettimeout() == 5
    assert not is_listening(address, 5)
    assert refuses(address, 5)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_impossible_host_is_not_listening(host):
    address = f"{host}:1"
    assert not is_listening(address, 5)
    assert not refuses(address, 5)
    with pytest.raises(OSError):  # noqa: PT011
        connect(address, 5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("file", False),
        ("absent", False),
        ("inside", False),
        ("outside", True),
        ("dangling", True),
        ("folder/file", True),
    ],
)
def test_only_links_to_elsewhere_lead_out(tmp_path, name, expected):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "run2").mkdir()
    (real / "file").touch()
    (real / "inside").symlink_to(real / "file")
    (real / "outside").symlink_to(tmp_path / "run2" / "x")
    (real / "dangling").symlink_to(tmp_path / "nowhere")
    (real / "folder").symlink_to(tmp_path / "run2")
    (tmp_path / "rea").symlink_to(real)
    for folder in (real, tmp_path / "rea"):
        assert leads_out(folder / name, folder) == expected
        assert leads_out(f"{folder}/{name}", f"{folder}/") == expected


def test_other_file_systems_have_no_links():
    assert not leads_out("gs://bucket/run/metrics.jsonl", "gs://bucket/run")


@pytest.mark.parametrize(
    ("task_type", "expected"),
    [
        ("chief", Role(trains=True, saves=True)),
        ("worker", Role(trains=True)),
        ("ps", Role(keeps_variables=True)),
        ("evaluator", Role(evaluates=True)),
        ("master", Role(trains=True, saves=True, evaluates=True)),
    ],
)
def test_role_of_a_task_in_a_cluster(task_type, expected):
    cluster = {"master" if task_type == "master" else "chief": ["a:1"], **CLUSTER}
    tf_config = {"cluster": cluster, "task": {"type": task_type, "index": 0}}
    assert parse_cluster_config(json.dumps(tf_config)).role == expected


@pytest.mark.parametrize("tf_config", ["", "{}", '{"task": {"type": "worker", "index": 0}}'])
def test_process_without_a_cluster_does_everything(tf_config):
    config = parse_cluster_config(tf_config)
    assert config.role == ALONE
    assert config.is_chief


def test_a_program_may_have_its_own_name_for_workers():
    config = ClusterConfig({"chief": ("a:1",), "trainer": ("a:2",)}, "trainer")
    assert config.role == ROLES["worker"]


def test_timeout_is_passed_on():
    refuses = mock.patch.object(addresses.socket, "create_connection", side_effect=TimeoutError)
    with refuses as create:
        assert not is_listening("a:1", 2)
    create.assert_called_once_with(("a", 1), 2)
