"""On a cluster of Spark's, kill -9 of executors, their Python workers, workers' daemons and the driver in turn.

What differs from local mode: an executor dies with the half of a micro-batch's tasks, and Spark runs these again beside
those that go on; attempts outlive the driver that began them; and with speculation two attempts write at once.
KVORUM_ROUNDS (2) and KVORUM_RECORDS (50,000) make it longer.
"""

import random
import re
from collections import Counter

import pytest

from tests.cluster.clients import eventually
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
from tests.spark.bridge.standalone import START_SECONDS, Standalone
from tests.spark.conftest import TopicFactory

pytestmark = pytest.mark.long

# Rows come to a task in several parts, so that an end may lie between them.
IN_PARTS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "50", "spark.buffer.size": "1024"}
# Whatever still runs when another task has ended is begun a second time, as soon as there is room.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.multiplier": "0.01",
    "spark.speculation.quantile": "0.01",
    "spark.speculation.minTaskRuntime": "1ms",
}
FOUND_WRITTEN = re.compile(r"\d+ tasks, (\d+) of them written before")


@pytest.mark.parametrize(
    ("shuffle", "speculation"),
    [(False, False), (True, False), (False, True)],
    ids=["each task writes what it read", "staged", "with speculation"],
)
def test_output_equals_input(
    shuffle: bool,
    speculation: bool,
    standalone: Standalone,
    bootstrap: str,
    make_topic: TopicFactory,
    drivers: Drivers,
) -> None:
    """Half of the rounds for the second and the third."""
    source, target = filled(bootstrap, make_topic)
    conf = standalone.conf | IN_PARTS | (SPECULATION if speculation else {})
    driver = drivers(**told(bootstrap, source, target), shuffle=shuffle, master=standalone.url, conf=conf)
    killed = survive(driver, standalone, max(1, ROUNDS // 2) if shuffle or speculation else ROUNDS)
    tasks, told_again = standalone.tasks(), sum(map(int, FOUND_WRITTEN.findall(driver.everything())))
    said = (
        f"{RECORDS} records, killed {dict(killed)}, tasks {dict(tasks)}, {told_again} of them found their rows written"
    )
    lost, doubled = missed(bootstrap, target)
    assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled: {said}"
    assert tasks["ExecutorLostFailure"] > 0 and (tasks["speculative"] > 0) == speculation, said
    print(f"{said}: none lost, none doubled; {driver.starts} starts of the driver")


def survive(driver: Driver, standalone: Standalone, rounds: int) -> Counter[str]:
    """Kill round by round, then have the driver come to its end; return how many of what were killed."""
    chance = random.Random(SEED)
    driver.start()
    killed: Counter[str] = Counter()
    for number in range(rounds):
        in_the_middle(driver, chance)
        kill(chance.choice(eventually(standalone.executors, standalone.tail, START_SECONDS)))
        killed["executors"] += 1
        in_the_middle(driver, chance)
        kill(chance.choice(eventually(standalone.python_workers, standalone.tail, START_SECONDS)))
        killed["Python workers"] += 1
        in_the_middle(driver, chance)
        worker = chance.choice(standalone.workers)
        if number % 2 == 0:
            for process in worker.session():  # as a machine that is lost; otherwise its executor outlives it a moment
                kill(process)
        worker.kill()
        killed["workers' daemons"] += 1
        standalone.start_worker(worker)
        in_the_middle(driver, chance)
        driver.kill()  # its executors outlive it a moment
        killed["drivers"] += 1
        standalone.wait_for_workers()
        driver.start()
    to_the_end(driver)
    return killed
