import dataclasses

import pytest

from replicate.estimator.lease.lease_record import LeaseRecord, parse_record
from replicate.estimator.lease.process_identity import ProcessIdentity

RECORD = LeaseRecord(
    7, "abc", ProcessIdentity("node5", 123, "b", "n", "99"), "2026-11-21 10:00:00 UTC", 4, 8
)


def test_a_record_is_read_as_it_was_written():
    assert parse_record(RECORD.content()) == RECORD
    released = dataclasses.replace(RECORD, is_released=True)
    assert parse_record(released.content()) == released


@pytest.mark.parametrize("content", [None, b"", RECORD.content()[:-5], b"[]", b"{}", b"\xff"])
def test_a_part_of_a_record_is_none(content):
    assert parse_record(content) is None


def test_the_description_names_the_holder_and_the_age():
    assert RECORD.describe() == (
        "process 123 on host node5 (lease 7, taken 2026-11-21 10:00:00 UTC by the clock of that "
        "host, held for 8 s)"
    )
