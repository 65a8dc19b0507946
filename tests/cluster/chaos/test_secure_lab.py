"""A secure lab: its clients, its observers, certificates that are renewed or expire, and a lab attached to it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from kvorum.chaos.faults.events import ignore_event
from kvorum.chaos.faults.fault_kinds import FAULTS, inject
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.faults.target_cluster import attach
from kvorum.chaos.history import HistoryWriter
from kvorum.chaos.pytest.topics import create
from kvorum.chaos.scenario.node_state import describe_served_certificates, logs_contain, sum_of_metric
from kvorum.chaos.workload.final import read_all
from kvorum.chaos.workload.recorder import Recorder
from tests.cluster.clients import eventually

REAUTHENTICATIONS = "kafka_server_socket_server_metrics_successful_reauthentication_total"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One cluster with a broker and a controller for all tests of this file."""
    shape = LabShape(brokers=1, controllers=1, secure=True, configs={"connections.max.reauth.ms": "500"})
    with Lab.create(str(tmp_path_factory.mktemp("lab")), shape, network="plain") as found:
        found.wait_until_healthy()
        create(found.direct_access, "orders", 1, 1, {})
        yield found


def send(lab: Lab, value: bytes = b"x") -> str | None:
    """Send one record and return the error."""
    errors: list[object] = []
    producer = Producer({**lab.access.librdkafka(), "message.timeout.ms": 20_000, "log_level": 0})
    producer.produce("orders", value, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(30) == 0
    return None if errors == [None] else str(errors)


def test_clients_of_the_lab_use_a_secure_cluster(lab: Lab) -> None:
    assert send(lab) is None
    assert lab.partitions()["orders-0"].leader == 1 and lab.min_isr("orders") == 1
    assert lab.active_controller() == "node-1"
    assert read_all(Recorder(HistoryWriter()), lab.direct_access, {"orders-0": 1}) == []


def test_aiokafka_uses_a_secure_cluster(lab: Lab) -> None:
    async def send_one() -> int:
        async with AIOKafkaProducer(**lab.access.aiokafka()) as producer:
            return int((await producer.send_and_wait("orders", b"y")).offset)

    assert asyncio.run(send_one()) >= 0


def test_librdkafka_authenticates_again_in_a_session(lab: Lab) -> None:
    before = sum_of_metric(lab, REAUTHENTICATIONS)
    producer = Producer({**lab.access.librdkafka(), "log_level": 0})

    def is_renewed() -> bool:
        producer.produce("orders", b"z")
        producer.poll(0.1)
        return sum_of_metric(lab, REAUTHENTICATIONS) > before

    eventually(is_renewed, "a connection is authenticated again")
    assert producer.flush(30) == 0


def test_renewed_certificates_are_served_without_a_restart(lab: Lab) -> None:
    assert describe_served_certificates(lab, "node-1") == ""
    inject(lab, "rotate_certificates", "node-1")
    eventually(lambda: not describe_served_certificates(lab, "node-1"), "the new certificate is served")
    assert send(lab) is None


def test_an_expired_certificate_is_refused_until_it_is_renewed(lab: Lab) -> None:
    folder = lab.cluster.node("node-1").folder
    fault = inject(lab, "expire_certificate", "node-1", lifetime_s=5)
    assert fault is not None
    eventually(lambda: not lab.partitions(), "the node is refused")
    assert logs_contain(folder, "the peer found the certificate expired")
    fault.end()
    eventually(lambda: bool(lab.partitions()), "the node is accepted")
    eventually(lambda: not describe_served_certificates(lab, "node-1"), "the new certificate is served")
    assert send(lab) is None


def test_the_lab_attaches_to_a_secure_cluster_that_runs(lab: Lab) -> None:
    attached = attach(lab.cluster.paths.folder, ignore_event, lambda: 0.0)
    try:
        assert attached.partitions()["orders-0"].leader == 1 and attached.active_controller() == "node-1"
        assert attached.min_isr("orders") == 1
        assert FAULTS["rotate_certificates"].why_unsupported(attached) is None
        assert FAULTS["stop_issuer"].why_unsupported(attached) is not None
    finally:
        attached.close()


@pytest.mark.long
def test_a_node_without_the_keys_of_the_issuer_does_not_start_and_names_the_url(tmp_path: Path) -> None:
    shape = LabShape(brokers=1, controllers=1, secure=True, mechanism="OAUTHBEARER")
    with Lab.create(str(tmp_path), shape, network="plain") as lab:
        lab.wait_until_healthy()
        create(lab.direct_access, "orders", 1, 1, {})
        assert send(lab) is None
        assert lab.lab_security is not None and lab.lab_security.issuer is not None
        with inject(lab, "stop_issuer") or pytest.fail("it lasts"):
            assert send(lab) is None, "the keys are known"
            lab.processes.kill("node-1")
            assert lab.processes.start("node-1") == {"node-1": "died"}
            assert lab.lab_security.issuer.url in lab.cluster.refusals["node-1"]
        lab.recover()
        assert send(lab) is None
