"""Each alert fires for what it is there for, says what is wrong, and is silent a little below that: by promtool.

A case is what Prometheus scraped, a sample every SCRAPE_SECONDS in promtool's notation (`0x20` is 0 and twenty more of
it, `0+5x20` goes up by 5 each time, `_` is no sample), a moment, and the alerts that are to be firing then.
"""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring import ALERTS, IN_KUBERNETES, SCRAPES

SCRAPE_SECONDS = 60
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="missing tool: promtool (Debian: prometheus)")

Fired = dict[str, str]
"""Labels of its own, beside alertname and severity; "summary" is the annotation."""


@dataclass(frozen=True)
class Case:
    """`fired` is empty: the alert is silent."""

    alert: str
    series: Mapping[str, str]
    at: str
    fired: tuple[Fired, ...] = ()


OFFLINE = 'kafka_controller_kafkacontroller_offlinepartitionscount{cluster="c",instance="%s"}'
ACTIVE = 'kafka_controller_kafkacontroller_activecontrollercount{cluster="c",instance="%s"}'
BUILD = 'kvorum_build_info{cluster="c",instance="%s",role="broker"}'
FENCED = 'kafka_controller_kafkacontroller_fencedbrokercount{cluster="c",instance="%s"}'
UNCLEAN = 'kafka_controller_controllerstats_uncleanleaderelections_total{cluster="c",instance="%s"}'
UNDER_MIN = 'kafka_server_replicamanager_underminisrpartitioncount{cluster="c",instance="%s"}'
UNDER_REPLICATED = 'kafka_server_replicamanager_underreplicatedpartitions{cluster="c",instance="%s"}'
SHRINKS = 'kafka_server_replicamanager_isrshrinks_total{cluster="c",instance="%s"}'
IMBALANCE = 'kafka_controller_kafkacontroller_preferredreplicaimbalancecount{cluster="c",instance="%s"}'
ELECTIONS = 'kvorum_raft_elections_total{cluster="c",instance="%s"}'
HIGH_WATERMARK = 'kafka_server_raftmetrics_high_watermark{cluster="c",instance="%s"}'
APPLIED = 'kafka_server_broker_metadata_metrics_last_applied_record_offset{cluster="c",instance="%s"}'
OFFLINE_DIRECTORIES = 'kafka_log_logmanager_offlinelogdirectorycount{cluster="c",instance="%s"}'
ROOM = 'kvorum_log_directory_%s_bytes{cluster="c",instance="b1",logDirectory="/disk1"}'
UNCLEANABLE = 'kafka_log_logcleanermanager_uncleanable_partitions_count{cluster="c",instance="b1",logDirectory="%s"}'
DEAD_CLEANERS = 'kafka_log_logcleaner_deadthreadcount{cluster="c",instance="%s"}'
SYNCS = 'kvorum_journal_sync_seconds_bucket{cluster="c",instance="c1",le="%s"}'
LAG = 'kafka_consumergroup_lag_sum{cluster="c",consumergroup="g",topic="t",instance="%s"}'
OFFSETS = 'kafka_consumergroup_current_offset_sum{cluster="c",consumergroup="g",topic="t",instance="%s"}'
HANGING = 'kafka_server_replicamanager_partitionswithlatetransactionscount{cluster="c",instance="%s"}'
REFUSED = 'kafka_server_brokertopicmetrics_failedproducerequests_total{cluster="c",instance="%s",topic="%s"}'
LATE = 'kvorum_event_loop_lag_max_seconds{cluster="c",instance="%s"}'
EXPIRY = 'kvorum_ssl_certificate_expiry_seconds{cluster="c",instance="%s",listener="%s"}'
IDLE = 'kafka_network_socketserver_networkprocessoravgidle_percent{cluster="c",instance="%s"}'
CONTROLLER_IDLE = 'kafka_controller_controllereventmanager_avgidleratio{cluster="c",instance="%s"}'
FILES = 'process_%s_fds{cluster="c",instance="b1",job="%s"}'
OVERFLOWED = 'kvorum_metrics_overflowed{cluster="c",instance="%s"}'
UP = 'up{cluster="c",instance="%s",job="%s"}'

C = {"cluster": "c"}
B1 = {"cluster": "c", "instance": "b1"}
OF_GROUP = {"cluster": "c", "consumergroup": "g", "topic": "t"}
STUCK = "group g has lag in t and commits no offsets"
BEHIND = "group g lags %s records in t, more than half an hour ago"

CASES = (
    Case(
        "KvorumProcessDown",
        {UP % ("b1", "kvorum-broker"): "1 0x5", UP % ("x", "another"): "0x9"},
        "3m",
        ({"instance": "b1", "cluster": "c", "job": "kvorum-broker", "summary": "b1 is not reachable"},),
    ),
    Case("KvorumProcessDown", {UP % ("b1", "kvorum-broker"): "1 0 1x5", UP % ("x", "another"): "0x9"}, "3m"),
    # Each controller counts all; one that is behind counts less.
    Case(
        "KvorumOfflinePartitions",
        {OFFLINE % "c1": "2x5", OFFLINE % "c2": "0x5"},
        "2m",
        (C | {"summary": "2 partitions have no leader"},),
    ),
    Case("KvorumOfflinePartitions", {OFFLINE % "c1": "0 2 0x5", OFFLINE % "c2": "0x5"}, "4m"),
    Case(
        "KvorumUnderMinIsr",
        {UNDER_MIN % "b1": "2x5", UNDER_MIN % "b2": "1x5"},
        "2m",
        (C | {"summary": "3 partitions reject acks=all"},),
    ),
    Case("KvorumUnderMinIsr", {UNDER_MIN % "b1": "0x5", UNDER_MIN % "b2": "0 1 0x5"}, "3m"),
    Case(
        "KvorumNoActiveController",
        {ACTIVE % "c1": "1 0x5", ACTIVE % "c2": "0x6", BUILD % "b1": "1x6"},
        "3m",
        (C | {"summary": "no active controller: no metadata changes and no leader elections"},),
    ),
    Case(
        "KvorumNoActiveController",
        {ACTIVE % "c1": "1 stale", BUILD % "b1": "1x6"},
        "3m",
        (C | {"summary": "no active controller: no metadata changes and no leader elections"},),
    ),
    Case("KvorumNoActiveController", {ACTIVE % "c1": "1 0x5", ACTIVE % "c2": "0 1x5", BUILD % "b1": "1x6"}, "3m"),
    Case(
        "KvorumTwoActiveControllers",
        {ACTIVE % "c1": "1x5", ACTIVE % "c2": "1x5"},
        "2m",
        (C | {"summary": "2 controllers claim to be active"},),
    ),
    Case("KvorumTwoActiveControllers", {ACTIVE % "c1": "1x2 0x5", ACTIVE % "c2": "0 0 1x5"}, "3m"),
    Case(
        "KvorumBrokerFenced",
        {FENCED % "c1": "1x5", FENCED % "c2": "1x5"},
        "3m",
        (C | {"summary": "1 registered brokers are fenced"},),
    ),
    Case("KvorumBrokerFenced", {FENCED % "c1": "1 0x5", FENCED % "c2": "1 0x5"}, "3m"),
    Case(
        "KvorumUncleanLeaderElection",
        {UNCLEAN % "c1": "0x2 1x5", UNCLEAN % "c2": "3x7"},
        "4m",
        (C | {"summary": "unclean leader election: acknowledged records may be lost"},),
    ),
    Case("KvorumUncleanLeaderElection", {UNCLEAN % "c1": "1x12", UNCLEAN % "c2": "3x12"}, "10m"),
    Case(
        "KvorumOfflineLogDirectory",
        {OFFLINE_DIRECTORIES % "b1": "0 1x3", OFFLINE_DIRECTORIES % "b2": "0x4"},
        "2m",
        (B1 | {"summary": "1 log directories of b1 are offline"},),
    ),
    Case("KvorumOfflineLogDirectory", {OFFLINE_DIRECTORIES % "b1": "0x4"}, "2m"),
    Case(
        "KvorumDiskFilling",
        {ROOM % "free": "14x9", ROOM % "total": "100x9"},
        "6m",
        (B1 | {"logDirectory": "/disk1", "summary": "/disk1 of b1: 14% of the volume is free"},),
    ),
    Case("KvorumDiskFilling", {ROOM % "free": "15x9", ROOM % "total": "100x9"}, "6m"),
    Case("KvorumDiskFilling", {ROOM % "free": "14 14 16x9", ROOM % "total": "100x12"}, "6m"),
    Case(
        "KvorumUncleanablePartitions",
        {UNCLEANABLE % "/a": "1x9", UNCLEANABLE % "/b": "1x9"},
        "6m",
        (B1 | {"summary": "2 compacted logs of b1 cannot be cleaned and grow"},),
    ),
    Case("KvorumUncleanablePartitions", {UNCLEANABLE % "/a": "0x9", UNCLEANABLE % "/b": "0x9"}, "6m"),
    Case(
        "KvorumLogCleanerDied",
        {DEAD_CLEANERS % "b1": "0 1x3"},
        "2m",
        (B1 | {"summary": "a log cleaner of b1 ended because of an error"},),
    ),
    Case("KvorumLogCleanerDied", {DEAD_CLEANERS % "b1": "0x3"}, "2m"),
    # A hundred syncs a minute: all of them between half a second and a whole one, then all of them below.
    Case(
        "KvorumDiskSlow",
        {SYNCS % "0.5": "0x30", SYNCS % "1.0": "0+100x30", SYNCS % "+Inf": "0+100x30"},
        "20m",
        ({"cluster": "c", "instance": "c1", "summary": "c1: a sync of the metadata journal takes 0.995 s"},),
    ),
    Case("KvorumDiskSlow", {SYNCS % "0.5": "0+100x30", SYNCS % "1.0": "0+100x30", SYNCS % "+Inf": "0+100x30"}, "20m"),
    Case(
        "KvorumUnderReplicated",
        {UNDER_REPLICATED % "b1": "3x9", UNDER_REPLICATED % "b2": "1x9"},
        "6m",
        (C | {"summary": "4 partitions are under-replicated"},),
    ),
    Case("KvorumUnderReplicated", {UNDER_REPLICATED % "b1": "3x3 0x9", UNDER_REPLICATED % "b2": "0x12"}, "8m"),
    Case(
        "KvorumInSyncSetsFlap",
        {SHRINKS % "b1": "0+3x40", SHRINKS % "b2": "0+1x40"},
        "35m",
        (B1 | {"summary": "ISRs of partitions led by b1 shrink repeatedly"},),
    ),
    Case("KvorumInSyncSetsFlap", {SHRINKS % "b1": "0+2x40"}, "35m"),
    Case(
        "KvorumLeadersNotPreferred",
        {IMBALANCE % "c1": "5x90", IMBALANCE % "c2": "4x90"},
        "65m",
        (C | {"summary": "5 partitions are not led by their preferred replica"},),
    ),
    Case("KvorumLeadersNotPreferred", {IMBALANCE % "c1": "5x30 0x60", IMBALANCE % "c2": "5x30 0x60"}, "65m"),
    Case(
        "KvorumQuorumElections",
        {ELECTIONS % "c1": "0+1x20", ELECTIONS % "c2": "0x20"},
        "16m",
        (C | {"summary": "15 quorum elections in 15 minutes"},),
    ),
    Case("KvorumQuorumElections", {ELECTIONS % "c1": "0 5x20", ELECTIONS % "c2": "0 5x20"}, "16m"),
    # A controller beside a broker tells for both; one that is a broker only tells of itself.
    Case(
        "KvorumControllerBehind",
        {HIGH_WATERMARK % "c1": "5000x9", HIGH_WATERMARK % "c2": "3900x9", APPLIED % "b1": "4999x9"},
        "3m",
        ({"cluster": "c", "instance": "c2", "summary": "c2 is 1100 metadata records behind"},),
    ),
    Case(
        "KvorumControllerBehind",
        {HIGH_WATERMARK % "c1": "5000x9", HIGH_WATERMARK % "c2": "4999x9", APPLIED % "b1": "3000x9"},
        "3m",
        (B1 | {"summary": "b1 is 2000 metadata records behind"},),
    ),
    Case(
        "KvorumControllerBehind",
        {HIGH_WATERMARK % "c1": "5000x9", HIGH_WATERMARK % "c2": "4000x9", APPLIED % "b1": "4000x9"},
        "3m",
    ),
    Case(
        "KvorumControllerBehind",
        {HIGH_WATERMARK % "c1": "5000x9", HIGH_WATERMARK % "b1": "5000x9", APPLIED % "b1": "1x9"},
        "3m",
    ),
    Case(
        "KvorumConsumerGroupStuck",
        {LAG % "b1": "10+10x40", OFFSETS % "b1": "100x40"},
        "25m",
        (OF_GROUP | {"summary": STUCK},),
    ),
    Case("KvorumConsumerGroupStuck", {LAG % "b1": "10x40", OFFSETS % "b1": "100+10x40"}, "25m"),
    Case("KvorumConsumerGroupStuck", {LAG % "b1": "0x40", OFFSETS % "b1": "100x40"}, "25m"),
    # A sum that is not whole is not told: nothing is known of the group then.
    Case("KvorumConsumerGroupStuck", {LAG % "b1": "_x40", OFFSETS % "b1": "100x40"}, "25m"),
    Case(
        "KvorumConsumerGroupFallsBehind",
        {LAG % "b1": "10000+100x80"},
        "70m",
        (OF_GROUP | {"summary": BEHIND % 17000},),
    ),
    Case("KvorumConsumerGroupFallsBehind", {LAG % "b1": "50000-100x80"}, "70m"),
    Case("KvorumConsumerGroupFallsBehind", {LAG % "b1": "0+100x80"}, "70m"),
    Case(
        "KvorumHangingTransaction",
        {HANGING % "b1": "1x9", HANGING % "b2": "0x9"},
        "6m",
        (C | {"summary": "1 partitions have a hanging transaction that blocks read_committed consumers"},),
    ),
    Case("KvorumHangingTransaction", {HANGING % "b1": "0x9", HANGING % "b2": "0x9"}, "6m"),
    # The row without a topic is that of all.
    Case(
        "KvorumProduceRefused",
        {REFUSED % ("b1", "t"): "0+60x30", REFUSED % ("b2", "t"): "0+60x30", REFUSED % ("b1", ""): "0+60x30"},
        "20m",
        ({"cluster": "c", "topic": "t", "summary": "produce requests for t are rejected"},),
    ),
    Case("KvorumProduceRefused", {REFUSED % ("b1", "t"): "0+60x30", REFUSED % ("b1", ""): "0+600x30"}, "20m"),
    Case(
        "KvorumEventLoopLate",
        {LATE % "b1": "1.5x9", LATE % "b2": "0.5x9"},
        "6m",
        (B1 | {"summary": "the event loop of b1 was blocked for 1.5 s"},),
    ),
    Case("KvorumEventLoopLate", {LATE % "b1": "1.5 0.1x9"}, "6m"),
    Case(
        "KvorumEventLoopBusy",
        {IDLE % "b1": "0.05x20", CONTROLLER_IDLE % "c1": "0.02x20", CONTROLLER_IDLE % "b1": "0.05x20"},
        "15m",
        (
            B1 | {"summary": "the event loop of b1 is overloaded: idle share 0.05"},
            {
                "cluster": "c",
                "instance": "c1",
                "summary": "the event loop of c1 is overloaded: idle share 0.02",
            },
        ),
    ),
    Case("KvorumEventLoopBusy", {IDLE % "b1": "0.05x4 0.5x16", CONTROLLER_IDLE % "c1": "0.9x20"}, "15m"),
    Case(
        "KvorumCertificateExpires",
        {EXPIRY % ("b1", "CLIENTS"): "1000x3", EXPIRY % ("b1", "INTERNAL"): "9999999x3"},
        "2m",
        (B1 | {"listener": "CLIENTS", "summary": "the certificate of listener CLIENTS of b1 expires in 1000 s"},),
    ),
    Case("KvorumCertificateExpires", {EXPIRY % ("b1", "CLIENTS"): "1209601x3"}, "2m"),
    Case(
        "KvorumOpenFiles",
        {FILES % ("open", "kvorum-broker"): "81x9", FILES % ("max", "kvorum-broker"): "100x9"},
        "6m",
        (B1 | {"job": "kvorum-broker", "summary": "b1 uses 0.81 of its file descriptor limit"},),
    ),
    Case(
        "KvorumOpenFiles", {FILES % ("open", "kvorum-broker"): "79x9", FILES % ("max", "kvorum-broker"): "100x9"}, "6m"
    ),
    Case("KvorumOpenFiles", {FILES % ("open", "another"): "99x9", FILES % ("max", "another"): "100x9"}, "6m"),
    Case(
        "KvorumMetricsOverflowed",
        {OVERFLOWED % "b1": "0 1x3"},
        "2m",
        (B1 | {"summary": "b1 exceeds the limit of label values: samples are missing"},),
    ),
    Case("KvorumMetricsOverflowed", {OVERFLOWED % "b1": "0x3"}, "2m"),
)


def rules() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}


def test_every_alert_has_a_case_where_it_fires_and_one_where_it_is_silent() -> None:
    assert (
        {case.alert for case in CASES if case.fired} == {case.alert for case in CASES if not case.fired} == {*rules()}
    )


def as_promtool_wants_it(case: Case) -> dict[str, Any]:
    own = {"severity": rules()[case.alert]["labels"]["severity"]}
    expected = [
        {
            "exp_labels": own | {key: value for key, value in fired.items() if key != "summary"},
            "exp_annotations": {"summary": fired["summary"]},
        }
        for fired in case.fired
    ]
    return {
        "name": f"{case.alert} {'fires' if case.fired else 'is silent'}: {dict(case.series)}",
        "interval": f"{SCRAPE_SECONDS}s",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [{"alertname": case.alert, "eval_time": case.at, "exp_alerts": expected}],
    }


def promtool(*arguments: str) -> tuple[int, str]:
    """Run it; return its exit code and all it said."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_alerts_fire_when_they_should_and_are_silent_when_they_should(tmp_path: Path) -> None:
    cases = {"rule_files": [str(ALERTS)], "evaluation_interval": "60s", "tests": list(map(as_promtool_wants_it, CASES))}
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump(cases))
    code, message = promtool("test", "rules", str(file))
    assert code == 0, message


@needs_promtool
def test_a_case_that_is_wrong_is_found(tmp_path: Path) -> None:
    case = as_promtool_wants_it(CASES[0])
    case["alert_rule_test"][0]["exp_alerts"] = []
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    code, message = promtool("test", "rules", str(file))
    assert code != 0 and "KvorumProcessDown" in message


@needs_promtool
def test_prometheus_takes_the_rules_and_the_scrape_configuration(tmp_path: Path) -> None:
    assert promtool("check", "rules", str(ALERTS))[0] == 0
    assert promtool("check", "config", str(SCRAPES))[0] == 0, "also one that is built without Kubernetes, as Debian's"
    code, message = promtool("check", "config", str(IN_KUBERNETES))
    assert code == 0 or "kubernetes_sd_configs not found" in message
