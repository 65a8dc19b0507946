"""Which log is cleaned, and when."""

import asyncio

import pytest

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.cleaner.choice import look_at
from tests.unit.storage.cleaner.kit import CHECKPOINT, Broker, compacted, filled, offsets_of, put
from tests.unit.storage.kit import NOW_MS
from tests.unit.storage.test_log_manager import TOPIC_ID


def test_a_checkpoint_beyond_the_log_is_forgotten_before_the_log_gets_there() -> None:
    """It is of another log: what is appended there was never cleaned."""
    broker = Broker()
    put(broker.log, (b"k", b"v"))
    broker.disk.write_atomic(CHECKPOINT, b"0\n1\ntopic 0 5\n")
    broker.kill()
    filled(broker)
    assert look_at(broker.log, NOW_MS).first_dirty_offset == 0


def test_the_dirtiest_log_is_first() -> None:
    broker = Broker()
    other = broker.manager.get_or_create(TopicPartition("topic", 1), TOPIC_ID)
    filled(broker)
    filled(broker, other)
    assert broker.clean()
    assert broker.clean()
    filled(broker, count=10, start=60)
    filled(broker, other, count=40, start=60)
    assert look_at(other, NOW_MS).ratio > look_at(broker.log, NOW_MS).ratio > 0
    assert broker.clean()
    assert (broker.log.cleaning.cleaned_offset, other.cleaning.cleaned_offset) == (60, 100)
    assert broker.clean()
    assert broker.log.cleaning.cleaned_offset == 70
    assert not broker.clean()


def test_a_log_that_is_not_dirty_enough_waits() -> None:
    broker = Broker(compacted(min_cleanable_dirty_ratio=0.5))
    filled(broker, keys=60)
    assert broker.clean()
    filled(broker, count=40, start=60, keys=60)
    assert not broker.clean()
    assert 0.3 < broker.cleaner.dirtiest_ratio < 0.5
    filled(broker, count=40, start=100, keys=60)
    assert broker.clean()


def test_a_log_that_waited_for_max_compaction_lag_ms_is_cleaned_however_clean_it_is() -> None:
    broker = Broker(compacted(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=1000))
    filled(broker, keys=60)
    assert broker.clean()
    filled(broker, count=10, start=60)
    broker.clock.now_ms += 1000
    assert not broker.clean()
    broker.clock.now_ms += 1
    assert broker.clean()
    assert offsets_of(broker.log) == [*range(5, 60), *range(65, 70)]


def test_records_younger_than_min_compaction_lag_ms_stay() -> None:
    broker = Broker(compacted(min_compaction_lag_ms=1000))
    filled(broker, count=30)
    broker.clock.now_ms += 500
    filled(broker, count=30, start=30)
    assert not broker.clean()
    broker.clock.now_ms += 500
    assert broker.clean()
    assert offsets_of(broker.log) == [*range(25, 30), *range(30, 60)]
    broker.clock.now_ms += 500
    assert broker.clean()
    assert offsets_of(broker.log) == list(range(55, 60))


@pytest.mark.parametrize("policy", [{"delete"}, set()])
def test_a_log_that_is_not_compacted_is_left_alone(policy: set[str]) -> None:
    broker = Broker(compacted(cleanup_policy=frozenset(policy), retention_ms=-1))
    filled(broker)
    assert not broker.clean()
    assert offsets_of(broker.log) == list(range(60))
    broker.loop.run_until_complete(asyncio.sleep(0))
    assert broker.manager.apply_retention(NOW_MS + 10**12) == 0
