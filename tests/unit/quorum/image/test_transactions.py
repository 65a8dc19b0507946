"""Changes larger than a batch are seen whole or not at all, and cut so that every batch keeps its limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.quorum.image.transactions import InvalidTransaction, TransactionBuffer, split_into_batches
from kvorum.quorum.records import (
    AbortTransaction,
    BeginTransaction,
    Config,
    EndTransaction,
    Feature,
    MetadataRecord,
    NoOp,
    decode,
    encode,
)

ONE, TWO = Feature(name="one", level=1), Feature(name="two", level=1)


def test_outside_a_transaction_records_are_returned_at_once() -> None:
    buffer = TransactionBuffer()
    assert buffer.feed_batch(5, [ONE, TWO]) == [(5, ONE), (6, TWO)]
    assert buffer.open_since is None


def test_records_of_a_transaction_are_returned_at_its_end() -> None:
    buffer = TransactionBuffer()
    assert buffer.feed_batch(5, [BeginTransaction(), ONE]) == []
    assert buffer.open_since == 5
    assert buffer.feed_batch(7, [TWO]) == []
    assert buffer.feed_batch(8, [EndTransaction(), NoOp()]) == [(6, ONE), (7, TWO), (9, NoOp())]
    assert buffer.open_since is None


def test_records_of_an_aborted_transaction_are_never_returned() -> None:
    buffer = TransactionBuffer()
    assert buffer.feed_batch(0, [BeginTransaction(), ONE, AbortTransaction(), TWO]) == [(3, TWO)]


@pytest.mark.parametrize(
    "batch",
    [[BeginTransaction(), ONE, BeginTransaction()], [EndTransaction()], [ONE, AbortTransaction()]],
)
def test_markers_that_do_not_pair_stop_the_node(batch: list[MetadataRecord]) -> None:
    with pytest.raises(InvalidTransaction):
        TransactionBuffer().feed_batch(0, batch)


def test_a_change_that_fits_one_batch_has_no_markers() -> None:
    assert list(split_into_batches([encode(ONE), encode(TWO)], 2, 1000)) == [[encode(ONE), encode(TWO)]]
    assert list(split_into_batches([], 2, 1000)) == []


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=60),
    records_max=st.integers(2, 12),
    bytes_max=st.integers(600, 3000),
)
def test_batches_keep_their_limits_and_give_back_the_change(sizes: list[int], records_max: int, bytes_max: int) -> None:
    change = [
        Config(resource_type=2, resource_name="t", name=f"c{index}", value="x" * size)
        for index, size in enumerate(sizes)
    ]
    batches = list(split_into_batches([encode(record) for record in change], records_max, bytes_max, name="n" * 500))
    assert all(0 < len(batch) <= records_max for batch in batches)
    assert all(sum(map(len, batch)) <= bytes_max for batch in batches)
    buffer = TransactionBuffer()
    offset, seen = 0, []
    for index, batch in enumerate(batches):
        ready = buffer.feed_batch(offset, map(decode, batch))
        offset += len(batch)
        seen += [record for _, record in ready]
        assert not ready or index == len(batches) - 1, "nothing is visible before the last batch"
    assert seen == change
    assert buffer.open_since is None


def test_one_transaction_after_the_other_brings_out_only_its_own() -> None:
    buffer = TransactionBuffer()
    first = buffer.feed_batch(0, [BeginTransaction(), ONE, EndTransaction()])
    second = buffer.feed_batch(3, [BeginTransaction(), TWO, EndTransaction()])
    assert (first, second) == ([(1, ONE)], [(4, TWO)])


def test_an_open_transaction_can_be_copied() -> None:
    """A snapshot is written while the log goes on."""
    buffer = TransactionBuffer()
    assert list(buffer.open_records()) == []
    buffer.feed_batch(5, [NoOp(), BeginTransaction(name="large"), ONE])
    kept = [buffer.open_records() for _ in range(3)]
    assert list(kept[0]) == [BeginTransaction(name="large"), ONE]
    buffer.feed_batch(8, [TWO])
    assert list(kept[1]) == [BeginTransaction(name="large"), ONE]
    assert list(buffer.open_records()) == [BeginTransaction(name="large"), ONE, TWO]
    buffer.feed_batch(9, [EndTransaction(), BeginTransaction(), TWO])
    assert list(kept[2]) == [BeginTransaction(name="large"), ONE]
    assert list(buffer.open_records()) == [BeginTransaction(), TWO]
