"""Which proxies lie between whom, and what nodes are told of them."""

import itertools

import pytest

from kvorum.chaos.faults.shape import LabPlan, LabShape, lab_plan
from kvorum.chaos.faults.topology import Direction, Parties, UnknownParty
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import advertised_listeners, inter_broker_listener_name, peer_addresses, voters

THREE = LabShape(groups=("clients", "clients-b"))


def plan_of_lab(shape: LabShape, proxied: bool = True) -> LabPlan:
    counter = itertools.count(20_000)
    return lab_plan(shape, "/nowhere", "x" * 22, lambda: next(counter), proxied=proxied)


def settings_of(plan: LabPlan, name: str) -> Settings:
    return Settings.of(dict(plan.cluster.node(name).properties))


def test_every_directed_link_has_a_proxy_of_its_own() -> None:
    plan = plan_of_lab(THREE)
    ways = list(plan.topology.proxies)
    assert len(ways) == len(set(ways)) == 6 + 6 + 9 + 6, "clients, brokers, brokers to controllers, controllers"
    proxies = plan.topology.proxies.values()
    assert len({each.listen_port for each in proxies}) == len({each.name for each in proxies}) == len(ways)
    assert (
        plan.topology.proxies[Direction("node-1/broker", "node-2/controller")].upstream
        == plan.direct["node-2/controller"]
    )


def test_each_process_reaches_each_peer_by_its_own_proxy() -> None:
    plan = plan_of_lab(THREE)
    for own, peer in (("broker", "broker"), ("broker", "controller"), ("controller", "controller")):
        for name, number in (("node-1", 1), ("node-2", 2), ("node-3", 3)):
            found = peer_addresses(settings_of(plan, name), own, peer)
            expected = {
                other: ("127.0.0.1", plan.topology.proxies[way].listen_port)
                for other in (1, 2, 3)
                if (way := Direction(f"{name}/{own}", f"node-{other}/{peer}")) in plan.topology.proxies
            }
            assert found == expected and len(found) == (3 if own != peer else 2), (name, own, peer, number)
    assert peer_addresses(settings_of(plan, "node-1")) == {}


def test_an_address_for_two_roles_wins_over_one_for_all() -> None:
    settings = Settings.of({"kvorum.peer.addresses": "1=a:1,2=a:2,broker>controller/2=b:3,controller>controller/2=c:4"})
    assert peer_addresses(settings, "broker", "controller") == {1: ("a", 1), 2: ("b", 3)}
    assert peer_addresses(settings, "broker", "broker") == {1: ("a", 1), 2: ("a", 2)}


@pytest.mark.parametrize("text", ["broker>admin/1=a:1", "broker/1=a:1", "broker>broker/x=a:1", "broker>broker/1=a"])
def test_a_broken_address_for_roles_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ROLE>ROLE/ID=HOST:PORT"):
        peer_addresses(Settings.of({"kvorum.peer.addresses": text}), "broker", "broker")


def test_brokers_advertise_proxies_to_clients_and_themselves_to_each_other() -> None:
    plan = plan_of_lab(THREE)
    settings = settings_of(plan, "node-2")
    reported = {each.listener_name: f"{each.host}:{each.port}" for each in advertised_listeners(settings)}
    assert reported["INTERNAL"] == plan.direct["node-2/broker"]
    assert reported["CLIENTS"] == plan.addresses["clients"]["node-2"]
    assert reported["CLIENTS_B"] == plan.addresses["clients-b"]["node-2"]
    assert reported["CLIENTS"].endswith(f":{plan.topology.proxies[Direction('clients', 'node-2/broker')].listen_port}")
    assert inter_broker_listener_name(settings) == "INTERNAL"
    direct = {number: plan.direct[f"node-{number}/controller"] for number in (1, 2, 3)}
    assert {number: f"{host}:{port}" for number, (host, port) in voters(settings).items()} == direct


def test_plain_links_lead_straight_there() -> None:
    plan = plan_of_lab(LabShape(), proxied=False)
    assert not plan.topology.proxies
    assert "kvorum.peer.addresses" not in plan.cluster.node("node-1").properties
    assert plan.addresses["clients"]["node-1"] in plan.cluster.node("node-1").properties["listeners"]


def test_nodes_are_combined_as_far_as_there_are_controllers_or_apart() -> None:
    assert {name: roles for name, (_, roles) in LabShape(brokers=2, controllers=1).nodes().items()} == {
        "node-1": ("broker", "controller"),
        "node-2": ("broker",),
    }
    apart = LabShape(brokers=2, controllers=1, combined=False)
    assert apart.nodes() == {
        "controller-1": (101, ("controller",)),
        "broker-1": (1, ("broker",)),
        "broker-2": (2, ("broker",)),
    }
    plan = plan_of_lab(apart)
    assert plan.cluster.node("broker-1").properties["controller.quorum.voters"].startswith("101@")
    assert set(plan.addresses["clients"]) == {"broker-1", "broker-2"}


@pytest.mark.parametrize("shape", [LabShape(brokers=0), LabShape(brokers=1, controllers=2), LabShape(brokers=99)])
def test_a_shape_that_cannot_be_is_refused(shape: LabShape) -> None:
    with pytest.raises(ValueError, match=r"lab|combined"):
        shape.nodes()


def test_configs_apply_to_all_nodes_or_one_except_the_labs_own() -> None:
    shape = LabShape(configs={"num.partitions": "7"}, node_configs={"node-2": {"broker.rack": "b"}})
    plan = plan_of_lab(shape)
    assert settings_of(plan, "node-1").int("num.partitions") == 7
    assert settings_of(plan, "node-2").str("broker.rack") == "b"
    with pytest.raises(ValueError, match="listeners: set by the lab"):
        plan_of_lab(LabShape(configs={"listeners": "PLAINTEXT://:1"}))


def parties() -> Parties:
    return THREE.parties()


def test_names_resolve_to_parties() -> None:
    assert parties().resolve("node-1") == ["node-1/broker", "node-1/controller"]
    assert parties().resolve("node-1/broker") == ["node-1/broker"]
    assert parties().resolve("clients-b") == ["clients-b"]
    assert parties().resolve("controllers") == [f"node-{number}/controller" for number in (1, 2, 3)]
    assert Parties({"n": ("broker",)}, ("clients-a", "clients-b")).resolve("clients") == ["clients-a", "clients-b"]


@pytest.mark.parametrize("name", ["node-4", "node-1/admin", "clients-c", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownParty, match="node-1, node-2, node-3, clients"):
        parties().resolve(name)


def test_names_with_a_comma_between_them_are_all_of_them_each_once() -> None:
    found = parties().resolve("node-2/broker, clients-b,node-2")
    assert found == ["node-2/broker", "clients-b", "node-2/controller"]
    with pytest.raises(UnknownParty, match="is not a node or process"):
        parties().resolve("node-1,nobody")
    own, others = plan_of_lab(THREE).topology.parties.around("node-1,node-2")
    assert len(own) == 4 and set(others) == {"node-3/broker", "node-3/controller", "clients", "clients-b"}


def test_around_a_node_are_the_others_and_around_a_process_not_its_own_node() -> None:
    topology = plan_of_lab(THREE).topology
    own, others = topology.parties.around("node-1")
    assert own == ["node-1/broker", "node-1/controller"]
    assert not {"node-1/broker", "node-1/controller"} & set(others) and "clients" in others and len(others) == 6
    own, others = topology.parties.around("node-1/controller")
    assert own == ["node-1/controller"] and "node-1/broker" not in others
    assert len(topology.towards(own, others)) == 2, "to two controllers"
    assert len(topology.towards(others, own)) == 4, "from two brokers and two controllers"


@pytest.mark.parametrize(
    ("shape", "reported"),
    [
        (LabShape(node_configs={"node-7": {}}), "node-7: configs for an unknown node; known: node-1, node-2, node-3"),
        (LabShape(configs={"min.isr": "2"}), "min.isr is not a config"),
        (LabShape(configs={"log.retention.mss": "2"}), "did you mean log.retention.ms"),
    ],
)
def test_configs_of_unknown_entities_are_refused(shape: LabShape, reported: str) -> None:
    with pytest.raises(ValueError, match=reported):
        plan_of_lab(shape)
