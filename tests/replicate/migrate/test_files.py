"""Files are found, read and written as they are."""

import os

import pytest

from replicate.migrate.files import (
    Text,
    UnreadableFileError,
    UnwritableFileError,
    find_files,
    read_text,
    replace_text,
)


def test_folders_are_walked_without_environments_and_links(tmp_path):
    kept = ["a.py", "b.ipynb", "sub/c.py"]
    others = [".git/d.py", "venv/e.py", "x/site-packages/f.py", "__pycache__/g.py", "h.txt"]
    for name in [*kept, *others, "venv/pyvenv.cfg"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert find_files([str(tmp_path)]) == [tmp_path / name for name in kept]
    assert find_files([str(tmp_path / "h.txt"), str(tmp_path / "link.py")]) == [
        tmp_path / "h.txt",
        tmp_path / "link.py",
    ]
    twice = find_files([str(tmp_path / "a.py"), str(tmp_path)])
    assert twice == [tmp_path / name for name in kept]
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder '.*nothing'\."):
        find_files([str(tmp_path / "nothing")])


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"x = 1\r\ny = 2\r", "x = 1\r\ny = 2\r", "utf-8"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8-sig"),
        (b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'é'\n", "iso-8859-1"),
    ],
)
def test_encoding_mark_and_line_ends_stay(tmp_path, data, text, encoding):
    path = tmp_path / "a.py"
    path.write_bytes(data)
    assert read_text(path) == Text(text, encoding)
    replace_text(path, read_text(path), read_text(path))
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "data",
    [b"x = '\xe9'\n", *(b"# coding: %s\n" % n for n in (b"nonsense", b"rot13", b"unicode_escape"))],
)
def test_wrong_encoding_is_told(tmp_path, data):
    path = tmp_path / "a.py"
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match="its encoding is wrong"):
        read_text(path)


def test_link_and_rights_stay(tmp_path):
    path, link = tmp_path / "a.py", tmp_path / "link.py"
    path.write_text("old")
    path.chmod(0o750)
    link.symlink_to("a.py")
    replace_text(link, Text("old", "utf-8"), Text("new", "utf-8"))
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o750
    for change, told in ((lambda: path.chmod(0o440), "read-only"), (path.unlink, "cannot be")):
        change()
        with pytest.raises(UnwritableFileError, match=told):
            replace_text(link, Text("new", "utf-8"), Text("newer", "utf-8"))
    path.write_text("changed")
    with pytest.raises(UnwritableFileError, match="has changed since it was read"):
        replace_text(link, Text("new", "utf-8"), Text("newer", "utf-8"))
    assert path.read_text() == "changed"
    assert sorted(os.listdir(tmp_path)) == ["a.py", "link.py"]
