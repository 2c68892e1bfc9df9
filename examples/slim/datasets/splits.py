"""Checks of split names, file patterns and folders, with the same errors in all datasets."""

from collections.abc import Sequence
from pathlib import Path


def check_split(dataset_name: str, split_name: str, accepted: Sequence[str]) -> None:
    """Raises ValueError unless a dataset has a split of that name."""
    if split_name not in accepted:
        raise ValueError(
            f"Dataset {dataset_name} has no split {split_name!r}; it has {', '.join(accepted)}. "
            "Set --dataset_split_name to one of them."
        )


def check_no_pattern(dataset_name: str, file_pattern: str | None) -> None:
    """Raises ValueError if a dataset whose files have fixed names is given a pattern."""
    if file_pattern is not None:
        raise ValueError(
            f"Dataset {dataset_name} takes no file pattern, got {file_pattern!r}: the names of its "
            "files are fixed. Leave it out."
        )


def required_folder(dataset_name: str, dataset_dir: str | None) -> str:
    """Returns the folder of a dataset.

    Raises:
      ValueError: No folder is given, or it does not exist.
    """
    if not dataset_dir:
        raise ValueError(
            f"Dataset {dataset_name} needs the folder of its files: set --dataset_dir. "
            "(--dataset_name=digits needs none.)"
        )
    if not Path(dataset_dir).is_dir():
        raise ValueError(
            f"Dataset {dataset_name}: there is no folder {dataset_dir!r}. Correct --dataset_dir."
        )
    return dataset_dir
