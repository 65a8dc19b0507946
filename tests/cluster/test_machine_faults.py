"""Three machines under load: cut links, renewed certificates, a machine that is lost with its disk and replaced."""

import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from kvorum.cli.main import main
from kvorum.client.values.quorum import Listener
from kvorum.cluster.local.formatting import InitialController, new_directory_id, own_endpoints
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid
from tests.cluster.clients import create_topic, eventually
from tests.cluster.machine_cluster import MachineCluster
from tests.cluster.machine_load import MachineLoad
from tests.cluster.machines import Machines

pytestmark = pytest.mark.long
TOPIC, PARTITIONS = "orders", 6
CUT_SECONDS = 12.0
"""More than broker.session.timeout.ms: a cut broker is fenced."""
SECONDS = 120
PORTS = (9092, 9093, 9094)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines(tmp_path)
    yield found
    found.close()


def with_topic(cluster: MachineCluster) -> MachineCluster:
    """Make the topic of the load."""
    client = cluster.client()
    cluster.machines.call(
        lambda: create_topic(cluster.bootstrap, TOPIC, PARTITIONS, 3, client=client, min_insync_replicas="2")
    )
    return cluster


def load_of(cluster: MachineCluster) -> MachineLoad:
    return MachineLoad(cluster.machines, cluster.bootstrap, TOPIC, PARTITIONS, cluster.client())


def report(what: str, seconds: float) -> None:
    """Print a figure for docs/measurements.md."""
    print(f"FIGURE {what}: {seconds:.2f} s without an acknowledgement")


CUTS = [(1, 2), (2, 3), (1, 3)]


def test_cut_links_lose_no_acknowledged_record(machines: Machines) -> None:
    cluster = with_topic(MachineCluster(machines).form())
    network = machines.network
    with load_of(cluster) as load:
        for one, other in CUTS:
            for way, pairs in (
                ("both ways", [(one, other), (other, one)]),
                ("one way", [(one, other)]),
                ("the other way", [(other, one)]),
            ):
                gap: list[float] = []
                with load.unavailability(gap):
                    rules = [rule for a, b in pairs for rule in network.drop(machines.name(a), machines.name(b))]
                    wait(CUT_SECONDS)
                    network.remove(rules)
                    cluster.wait_until_in_sync()
                report(f"link {one}-{other} cut {way} for {CUT_SECONDS:.0f} s", gap[0])
        for number in cluster.numbers:
            gap = []
            names = [machines.name(number), *(machines.name(each) for each in cluster.numbers if each != number)]
            with load.unavailability(gap):
                isolated = [(names[0], name) for name in names[1:]]
                rules = [rule for a, b in isolated for rule in (*network.drop(a, b), *network.drop(b, a))]
                wait(CUT_SECONDS)
                network.remove(rules)
                cluster.wait_until_in_sync()
            report(f"machine {number} cut from the others, not from clients, for {CUT_SECONDS:.0f} s", gap[0])
    load.assert_all_acked_once_in_order()


def wait(seconds: float) -> None:
    """Let time pass: the cut lasts as long, whatever happens."""
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= until, "time to pass", seconds + 5)


def test_certificates_are_renewed_under_load(machines: Machines) -> None:
    """No client notices: no connection is lost, and none gets an error."""
    cluster = with_topic(MachineCluster(machines).form())
    before = serials(cluster)
    gap: list[float] = []
    with load_of(cluster) as load:
        load.wait_for_more()
        disconnects = dict(eventually(lambda: load.disconnects, "statistics of connections"))
        with load.unavailability(gap):
            done = CliRunner().invoke(main, ["certs", "rotate", "--dir", str(cluster.certificates.folder)])
            assert done.exit_code == 0, done.output
            for number in cluster.numbers:
                cluster.copy_key_store(number)
            eventually(
                lambda: not before & serials(cluster), lambda: f"{before & serials(cluster)} are still served", 60
            )
            load.wait_for_more()
        statistics = load.disconnects.copy()
    report("certificates of all nodes renewed", gap[0])
    assert not load.errors
    assert {name: statistics[name] for name in disconnects} == disconnects
    load.assert_all_acked_once_in_order()
    # The nodes connect to each other with the new certificates, and have the same principals.
    machines.systemctl(2, "restart")
    machines.wait_until_ready(2)
    cluster.wait_until_in_sync()


def serials(cluster: MachineCluster) -> set[int]:
    """Return the serial numbers of the certificates at all listeners of all nodes."""
    machines = cluster.machines
    addresses = [(machines.address(number), port) for number in cluster.numbers for port in PORTS]
    served = machines.call(lambda: [ssl.get_server_certificate(address, timeout=10) for address in addresses])
    return {x509.load_pem_x509_certificate(text.encode()).serial_number for text in served}


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static-quorum", "dynamic-quorum"])
def test_a_machine_that_is_lost_with_its_disk_is_replaced(machines: Machines, is_dynamic: bool) -> None:
    cluster = MachineCluster(machines)
    if is_dynamic:
        cluster.defaults["controller.quorum.bootstrap.servers"] = machines.bootstrap(9093)
        cluster.install()
        cluster.format(initial=initial_controllers(cluster))
        cluster.start()
        cluster.make_user()
    else:
        cluster.form()
    with_topic(cluster)
    lost = cluster.call(lambda client: client.quorum.describe()).leader_id
    kind = "dynamic" if is_dynamic else "static"
    gap: list[float] = []
    with load_of(cluster) as load:
        load.wait_for_more()
        old = cluster.directory_id(lost)
        with load.unavailability(gap):
            machines.lose(lost)
            load.wait_for_more(1_000)
        report(f"machine of the active controller lost ({kind} quorum)", gap[0])
        machines.deliver(lost)
        cluster.install(lost)
        began = time.monotonic()
        cluster.format(lost, initial={} if is_dynamic else None)
        new = cluster.directory_id(lost)
        machines.systemctl(lost, "start")
        if is_dynamic:
            replace_voter(cluster, lost, old, new)
        eventually(lambda: voters(cluster).get(lost) == new, "the new controller as a voter", SECONDS)
        machines.wait_until_ready(lost)
        cluster.wait_until_in_sync()
        seconds = time.monotonic() - began
        print(
            f"FIGURE machine replaced ({kind} quorum): {seconds:.1f} s from its format until all replicas are in sync"
        )
        # Without another one the new machine is needed, for the quorum and for min.insync.replicas.
        other = lost % machines.count + 1
        load.wait_until_not_connecting(lost)
        gap = []
        with load.unavailability(gap):
            machines.kill(other)
            load.wait_for_more(1_000)
        report(f"another machine killed after that ({kind} quorum)", gap[0])
        cluster.start(other)
        cluster.wait_until_in_sync()
    load.assert_all_acked_once_in_order()


def initial_controllers(cluster: MachineCluster) -> Mapping[int, InitialController]:
    """Return the first voters of a dynamic quorum."""
    endpoints = {number: own_endpoints(cluster.settings(number)) for number in cluster.numbers}
    return {number: InitialController(new_directory_id(), found) for number, found in endpoints.items()}


def voters(cluster: MachineCluster) -> dict[int, Uuid]:
    """Return {node: directory id} of the voters."""
    return {each.node_id: each.directory_id for each in cluster.call(lambda client: client.quorum.describe()).voters}


def replace_voter(cluster: MachineCluster, number: int, old: Uuid, new: Uuid) -> None:
    """Remove the lost directory from the quorum, and add the new one once it has caught up."""
    cluster.call(lambda client: client.quorum.remove_voter(number, old))
    listeners = [
        Listener(name=name, host=host, port=port) for name, host, port in own_endpoints(cluster.settings(number))
    ]

    def is_added() -> bool:
        try:
            cluster.call(lambda client: client.quorum.add_voter(number, new, listeners))
        except KafkaError as error:
            assert error.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER), error
        return new in voters(cluster).values()

    eventually(is_added, "the new voter", SECONDS)
