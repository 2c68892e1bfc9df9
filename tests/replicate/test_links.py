import pytest

from replicate.links import leads_out


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
