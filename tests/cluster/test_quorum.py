"""Acceptance 6: controllers killed at random under writes, journals damaged and torn, directories lost."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from kvorum.cluster.local.local import LAST_STEPS_SECONDS, LocalCluster, wait_for_exit
from kvorum.cluster.process.exits import Exit
from kvorum.quorum.raft.journal_format import (
    BLOCK_HEADER_SIZE,
    RecordKind,
    encode_block,
    encode_record,
    scan_segment,
)
from tests.cluster.clients import eventually
from tests.cluster.conftest import Start, logs_of
from tests.cluster.metadata_images import assert_copies_are_equal
from tests.cluster.nodes import active_controller, id_of, kill_all, restart, wait_until_everybody_has_the_metadata
from tests.cluster.quorum_kit import (
    BROKERS,
    CONTROLLERS,
    REQUEST_SECONDS,
    THREE_CONTROLLERS,
    MetadataWriter,
    assert_same_metadata_through_every_broker,
    assert_written_everywhere,
    create,
    directory_of,
    topics_of,
    wait_for_voters,
    wipe,
)

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "3"))
"""Kills in a row; `make acceptance` does twenty."""
SEED = int(os.environ.get("KVORUM_SEED", "6"))

StartQuorum = Callable[..., LocalCluster]


@pytest.fixture
def start_quorum(start_cluster: Start, tmp_path: Path) -> StartQuorum:
    """Return a function that starts three controllers and two brokers, each a node of its own, with these settings."""

    def start(*settings: str) -> LocalCluster:
        file = tmp_path / "quorum.yaml"
        file.write_text(THREE_CONTROLLERS)
        return start_cluster(str(file), *settings)

    return start


def kill_at_random_under_writes(cluster: LocalCluster) -> int:
    """One, two or all three at once, the active one at least every other time; writes go on as soon as they can.

    What is killed comes back by the supervisor's hand, or with its whole node. The second round kills all three, others
    as chance says. Returns how many writes were acknowledged.
    """
    rng = random.Random(SEED)
    with MetadataWriter(cluster.plan.bootstrap, SEED) as writer:
        for number in range(ROUNDS):
            writer.wait_for(rng.randint(1, 6))
            count = 3 if number == 1 else rng.choices((1, 2, 3), (6, 3, 1))[0]
            victims = rng.sample(CONTROLLERS, count)
            if number % 2 == 0:
                active = active_controller(cluster)
                victims = [active, *(name for name in victims if name != active)][:count]
            if count == 1 and rng.random() < 0.5:
                kill_the_process_alone(cluster, victims[0])
                writer.wait_for(2)
                continue
            kill_all(cluster, *victims)
            if count == 1:
                writer.wait_for(2)
            restart(cluster, *victims)
        writer.wait_for(5)
    assert len(writer.topics) >= ROUNDS
    assert_written_everywhere(cluster, writer.topics)
    wait_for_voters(cluster, {name: directory_of(cluster, name) for name in CONTROLLERS})
    return writer.acknowledged


def test_controllers_killed_at_random_under_writes_lose_no_acknowledged_metadata(start_quorum: StartQuorum) -> None:
    cluster = start_quorum()
    acknowledged = kill_at_random_under_writes(cluster)
    assert assert_same_metadata_through_every_broker(cluster) > acknowledged
    for names in (BROKERS, CONTROLLERS):
        assert cluster.stop(*names) == []
    for name, copy in assert_copies_are_equal(cluster, *CONTROLLERS, *BROKERS).items():
        assert min(copy.log) == 0 and not copy.snapshots, f"{name} was to have the log alone"


def test_nor_do_they_while_snapshots_are_written_all_the_time(start_quorum: StartQuorum) -> None:
    """Everybody starts again from a snapshot, and the log before it goes."""
    cluster = start_quorum("metadata.log.max.record.bytes.between.snapshots=2000", "auto.leader.rebalance.enable=false")
    kill_at_random_under_writes(cluster)
    # A copy that ends before the others' snapshots begin has nothing in common with them. So everybody has all, and
    # controllers go first: one that sees a broker die fences it, and the elections alone are worth a snapshot.
    wait_until_everybody_has_the_metadata(cluster)
    kill_all(cluster, *CONTROLLERS)
    kill_all(cluster, *BROKERS)
    for name, copy in assert_copies_are_equal(cluster, *CONTROLLERS, *BROKERS).items():
        assert copy.snapshots and min(copy.log, default=1) > 0, f"{name} still has the whole log"
    restart(cluster, *CONTROLLERS, *BROKERS)
    create(cluster, "after-all")


def kill_the_process_alone(cluster: LocalCluster, name: str) -> None:
    """kill -9 the controller and leave its supervisor, which starts it again."""
    before = cluster.processes(name)["controller"]
    cluster.kill(name, "controller")
    eventually(lambda: cluster.processes(name).get("controller") not in (None, before), f"{name} started again")


def journal_of(cluster: LocalCluster, name: str) -> Path:
    """Return the newest segment of a controller's journal."""
    return sorted((Path(cluster.node(name).data) / "raft" / "journal").glob("*.journal"))[-1]


def block_positions(data: bytes, path: str) -> list[int]:
    """Return where the blocks of a segment begin: each is found by cutting the segment off behind it."""
    scan = scan_segment(data, path)
    positions, position = [], 32
    for _ in scan.blocks:
        positions.append(position)
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        end = position + BLOCK_HEADER_SIZE + length
        position = end + -end % 8
    assert position == scan.end
    return positions


def test_a_flipped_bit_in_the_middle_of_a_journal_stops_the_controller_with_its_position(
    start_quorum: StartQuorum,
) -> None:
    """The others go on without it; moved away and formatted again it is taken in again by itself."""
    cluster = start_quorum()
    victim = next(name for name in CONTROLLERS if name != active_controller(cluster))
    for number in range(5):
        create(cluster, f"before-{number}")
    assert cluster.stop(victim) == []
    path = journal_of(cluster, victim)
    data = bytearray(path.read_bytes())
    positions = block_positions(bytes(data), str(path))
    damaged = positions[len(positions) // 2]
    data[damaged + BLOCK_HEADER_SIZE + 5] ^= 0x10
    path.write_bytes(data)

    paths = cluster.node(victim)
    command = [sys.executable, "-m", "kvorum.cluster.process.child", "controller", "--config", paths.config]
    refused = subprocess.run([*command, "--dir", paths.folder], capture_output=True, timeout=60, check=False)
    assert refused.returncode == Exit.DATA_REFUSED, refused.stderr.decode()
    assert f"{path}: damaged at byte {damaged}" in refused.stderr.decode()
    assert cluster.start(victim) == {victim: "died"}
    # It has said that it died and may still be on its last steps; one that tried again would not end.
    ended = [wait_for_exit(process, LAST_STEPS_SECONDS) for process in cluster.processes(victim).values()]
    assert all(ended) and cluster.processes(victim) == {}, "the supervisor does not try again"
    assert path.read_bytes() == bytes(data), "what is damaged is left as it is"

    create(cluster, "meanwhile")
    directories = {name: directory_of(cluster, name) for name in CONTROLLERS if name != victim}
    directories[victim] = wipe(cluster, victim)
    restart(cluster, victim)
    wait_for_voters(cluster, directories)
    eventually(lambda: {"before-4", "meanwhile"} <= topics_of(cluster, "broker-1"), "every topic")


def test_a_torn_tail_is_cut_off_and_the_controller_joins(start_quorum: StartQuorum) -> None:
    """Half of a block that a crash cut short, at the journal's end: nobody was ever told of what it held."""
    cluster = start_quorum()
    victim = next(name for name in CONTROLLERS if name != active_controller(cluster))
    create(cluster, "before")
    cluster.kill(victim)
    path = journal_of(cluster, victim)
    data = bytearray(path.read_bytes())
    scan = scan_segment(bytes(data), str(path))
    entry = [encode_record(RecordKind.ENTRY, 10_000, 1, bytes(200)), b"\xff" * 200]
    torn = encode_block(entry, scan.blocks[-1][0] + 1)
    data[scan.end : scan.end + 150] = torn[:150]
    path.write_bytes(data)
    assert scan_segment(path.read_bytes(), str(path)).torn
    create(cluster, "meanwhile")
    restart(cluster, victim)
    wait_for_voters(cluster, {name: directory_of(cluster, name) for name in CONTROLLERS})
    create(cluster, "after")
    # It is whole: with it alone beside one other, everything goes on.
    third = next(name for name in CONTROLLERS if name not in (victim, active_controller(cluster)))
    cluster.kill(third)
    create(cluster, "with-it")


def test_a_wiped_controller_is_taken_in_again_by_a_living_quorum(start_quorum: StartQuorum) -> None:
    """The active one, even: its directory is lost, it comes back under a new id, and then counts for a majority."""
    cluster = start_quorum()
    create(cluster, "before")
    victim = active_controller(cluster)
    cluster.kill(victim)
    directories = {name: directory_of(cluster, name) for name in CONTROLLERS if name != victim}
    eventually(lambda: acknowledged(cluster, "meanwhile"), "a topic without the wiped controller")
    directories[victim] = wipe(cluster, victim)
    restart(cluster, victim)
    wait_for_voters(cluster, directories)
    other = next(name for name in CONTROLLERS if name not in (victim, active_controller(cluster)))
    cluster.kill(other)
    eventually(lambda: acknowledged(cluster, "after"), "a topic with the wiped controller as one of two")
    restart(cluster, other)
    for broker in BROKERS:
        eventually(lambda: {"before", "meanwhile", "after"} <= topics_of(cluster, broker), broker)  # noqa: B023


def acknowledged(cluster: LocalCluster, name: str) -> bool:
    """Try to create a topic; tell whether it was acknowledged, now or by an earlier try that was not answered."""
    try:
        create(cluster, name, within=REQUEST_SECONDS)
    except KafkaException as error:
        return "TOPIC_ALREADY_EXISTS" in str(error)
    return True


def lose_a_and_b(cluster: LocalCluster) -> tuple[str, str, str]:
    """A commits with B while C is away; B is wiped, A is killed; B and C run. Returns the names of A, B, C."""
    create(cluster, "early")
    a = active_controller(cluster)
    b, c = (name for name in CONTROLLERS if name != a)
    wait_for_voters(cluster, {name: directory_of(cluster, name) for name in CONTROLLERS})
    cluster.kill(c)
    for number in range(3):
        create(cluster, f"late-{number}")
    cluster.kill(b)
    wipe(cluster, b)
    cluster.kill(a)
    restart(cluster, b, c)
    with pytest.raises(KafkaException):
        create(cluster, "unheard", within=REQUEST_SECONDS)
    return a, b, c


LATE = {"late-0", "late-1", "late-2"}


def test_without_a_majority_of_kept_directories_nothing_is_lost_and_the_quorum_waits(start_quorum: StartQuorum) -> None:
    cluster = start_quorum()
    a, b, c = lose_a_and_b(cluster)
    restart(cluster, a)
    wait_for_voters(cluster, {name: directory_of(cluster, name) for name in (a, b, c)})
    for broker in BROKERS:
        eventually(lambda: {"early", *LATE} <= topics_of(cluster, broker), broker)  # noqa: B023
    eventually(lambda: acknowledged(cluster, "after"), "a topic after all")
    assert_same_metadata_through_every_broker(cluster)


def test_an_operator_may_readmit_the_wiped_controller_and_discards_entries_of_lost_ones(
    start_quorum: StartQuorum,
) -> None:
    cluster = start_quorum()
    a, b, c = lose_a_and_b(cluster)
    command = ["quorum", "readmit", str(id_of(cluster, b)), str(directory_of(cluster, b))]
    command += ["--config", cluster.node(c).config]
    running = kvorum(*command, "--i-accept-loss")
    assert running.returncode == 1 and "lock" in running.stderr, "the controller it is said to must be stopped"
    assert cluster.stop(c) == []
    requested = kvorum(*command)
    assert (
        requested.returncode == 2
        and "Metadata can be lost" in requested.stdout
        and "--i-accept-loss" in requested.stderr
    )
    done = kvorum(*command, "--i-accept-loss")
    assert done.returncode == 0, done.stderr
    for broker in BROKERS:
        cluster.kill(broker)
    restart(cluster, c)
    restart(cluster, *BROKERS)
    eventually(lambda: acknowledged(cluster, "after"), "a topic by the two that are left")
    for broker in BROKERS:
        known = eventually(lambda: "after" in (found := topics_of(cluster, broker)) and found, broker)  # noqa: B023
        assert "early" in known and not LATE & known

    # The one that was thought lost comes back with what was given up: it must not run on, and formatted again it joins.
    cluster.start(a)
    eventually(lambda: not cluster.processes(a), lambda: logs_of(cluster, "the one that knows more runs on"))
    assert "committed" in Path(cluster.node(a).log("controller")).read_text().splitlines()[-1]
    directories = {name: directory_of(cluster, name) for name in (b, c)} | {a: wipe(cluster, a)}
    restart(cluster, a)
    wait_for_voters(cluster, directories)
    for names in (BROKERS, CONTROLLERS):
        assert cluster.stop(*names) == []
    assert_copies_are_equal(cluster, *CONTROLLERS, *BROKERS)


def kvorum(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line."""
    command = [sys.executable, "-m", "kvorum.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
