"""kill -9 of the driver, of Python workers and of brokers in turn: what comes out is what went in, each row once.

KVORUM_ROUNDS (2) and KVORUM_RECORDS (50,000) make it longer. test_executor_kills.py has what a cluster of Spark's adds.
"""

import random
from collections import Counter
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import eventually
from tests.cluster.nodes import addresses, id_of, restart
from tests.spark.bridge.kills import (
    RECORDS,
    ROUNDS,
    SEED,
    Driver,
    Drivers,
    filled,
    in_the_middle,
    kill,
    missed,
    to_the_end,
    told,
)
from tests.spark.conftest import TopicFactory

pytestmark = pytest.mark.long


@pytest.mark.parametrize("shuffle", [False, True], ids=["each task writes what it read", "staged"])
def test_output_equals_input(
    shuffle: bool, kvorum_cluster: LocalCluster, bootstrap: str, make_topic: TopicFactory, drivers: Drivers
) -> None:
    """Each round kills the driver (with its workers, or alone), a worker, and one broker, in the middle of things."""
    source, target = filled(bootstrap, make_topic)
    driver = drivers(**told(bootstrap, source, target), shuffle=shuffle)
    killed = survive(driver, kvorum_cluster, max(1, ROUNDS // 2) if shuffle else ROUNDS)
    lost, doubled = missed(bootstrap, target)
    assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled after {dict(killed)}"
    print(f"{RECORDS} records, {dict(killed)}: none lost, none doubled")


def test_sparks_own_connector_loses_nothing_and_doubles_what_a_killed_batch_wrote(
    spark_jars: str, kvorum_cluster: LocalCluster, bootstrap: str, make_topic: TopicFactory, drivers: Drivers
) -> None:
    """The same beside it: at least once is what it promises. How much is doubled is chance, so it is told only."""
    source, target = filled(bootstrap, make_topic)
    driver = drivers(**told(bootstrap, source, target), shuffle=False, jars=spark_jars)
    killed = survive(driver, kvorum_cluster, ROUNDS)
    lost, doubled = missed(bootstrap, target)
    assert lost == 0
    print(f"{RECORDS} records, {dict(killed)}, Spark's connector: none lost, {doubled} doubled")


def survive(driver: Driver, kvorum_cluster: LocalCluster, rounds: int) -> Counter[str]:
    """Kill round by round, then have the driver come to its end; return how many of what were killed."""
    chance = random.Random(SEED)
    driver.start()
    names = [node.name for node in kvorum_cluster.plan.nodes]
    killed: Counter[str] = Counter()
    for number in range(rounds):
        in_the_middle(driver, chance)
        if number % 2:
            driver.kill_driver_only()
        else:
            driver.kill()
        killed["drivers"] += 1
        driver.start()
        in_the_middle(driver, chance)
        for worker in chance.sample(driver.workers(), k=min(1, len(driver.workers()))):
            kill(worker)
            killed["workers"] += 1
        in_the_middle(driver, chance)
        kvorum_cluster.kill(names[number % len(names)])
        killed["brokers"] += 1
        dead, other = names[number % len(names)], addresses(kvorum_cluster)[names[(number + 1) % len(names)]]
        eventually(partial(is_led_without, id_of(kvorum_cluster, dead), other, driver), f"no leader is on {dead}")
        restart(kvorum_cluster, names[number % len(names)])
    to_the_end(driver)
    return killed


def is_led_without(dead: int, bootstrap: str, driver: Driver) -> bool:
    """Whether each partition of the driver's topics has a leader other than the dead broker."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    partitions = [each for key in ("source", "target") for each in topics[str(driver.told[key])].partitions.values()]
    return all(each.leader not in (-1, dead) for each in partitions)
