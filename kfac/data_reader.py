"""Batches that are kept for the loss after a step; defined in `kfac.scheduling`."""

from kfac.scheduling.data_reader import (
    CachedDataReader,
    CachedIndexedReader,
    IndexedBatchReader,
    VariableBatchReader,
)

__all__ = [
    "CachedDataReader",
    "CachedIndexedReader",
    "IndexedBatchReader",
    "VariableBatchReader",
]
