"""The options are those of Spark's own Kafka source and sink: what they mean, and how a wrong one is told."""

import pytest

from kvorum.pipelines.bridge import client, options
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.offsets import EARLIEST, LATEST
from kvorum.security.client_properties import SECURITY_PREFIXES

BASE = {"kafka.bootstrap.servers": "a:1,b:2", "subscribe": "t"}

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def reading(is_streaming: bool = False, **changes: str) -> options.ReadOptions:
    given = BASE | {name.replace("__", "."): value for name, value in changes.items()}
    return options.reading({name: value for name, value in given.items() if value}, is_streaming=is_streaming)


def test_names_are_case_insensitive() -> None:
    read = options.reading(
        {"KAFKA.bootstrap.SERVERS": "a:1", "SUBSCRIBE": "b, a ,b", "MinPartitions": "4"}, is_streaming=False
    )
    assert read.topics.names == ("a", "b") and read.min_partitions == 4
    assert read.settings == {"bootstrap.servers": "a:1"}


def test_defaults_are_those_of_sparks_source() -> None:
    batch, stream = reading(), reading(is_streaming=True)
    assert (batch.start.value, batch.end.value) == (EARLIEST, LATEST)
    assert stream.start.value == LATEST
    assert batch.fail_on_data_loss and not batch.include_headers and not batch.is_read_committed
    assert reading(**{"kafka.isolation.level": "read_committed"}).is_read_committed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"subscribe": ""}, "exactly one of assign, subscribe, subscribePattern"),
        ({"assign": '{"t":[0]}'}, "exactly one of assign, subscribe, subscribePattern"),
        ({"subscribe": " , "}, "contains no topic"),
        ({"subscribe": "", "subscribePattern": "("}, "option subscribePattern"),
        ({"subscribe": "", "assign": "{}"}, "contains no partition"),
        ({"subscribe": "", "assign": '["t"]'}, "option assign: expected"),
        ({"startingOffset": "latest"}, "unknown option startingoffset; did you mean 'startingOffsets'"),
        ({"startingOffsets": "newest"}, "option startingOffsets: expected"),
        ({"startingOffsets": "latest"}, "latest is not valid as the start of a batch"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, r"-1 \(latest\) is not valid as the start of a batch"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 for t-0 is not a valid offset"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "True for t-0 is not a valid offset"),
        ({"endingOffsets": "earliest"}, "earliest is not valid"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, r"-2 \(earliest\) is not valid"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp: expected milliseconds"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss: expected true or false"),
        ({"minPartitions": "0"}, "option minPartitions: expected a whole number above 0"),
        ({"kafka.isolation.level": "serializable"}, "read_committed or read_uncommitted"),
        ({"kafka.key.deserializer": "x"}, "option kafka.key.deserializer is not supported"),
        ({"kafka.auto.offset.reset": "latest"}, "option kafka.auto.offset.reset is not supported"),
        ({"kafka.security.protocol": "TLS"}, "option kafka.security.protocol: TLS is not one of PLAINTEXT"),
        ({"kafka.sasl.pasword": "x"}, r"option kafka.sasl.pasword: .*did you mean sasl.password or"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/a.jks"},
            "option kafka.ssl.truststore.location: ",
        ),
    ],
)
def test_a_wrong_option_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        reading(**changes)


def test_what_only_a_batch_or_only_a_stream_has() -> None:
    with pytest.raises(OptionError, match="endingOffsets is not valid in streaming"):
        reading(is_streaming=True, endingOffsets="latest")
    assert reading(is_streaming=True, maxOffsetsPerTrigger="10").max_offsets_per_trigger == 10


def test_a_timestamp_comes_before_offsets() -> None:
    read = reading(startingTimestamp="5", startingOffsets="earliest")
    assert read.start.value == 5 and read.start.is_time


def test_javas_settings_become_librdkafkas() -> None:
    settings = client.from_options(
        {
            "kafka.bootstrap.servers": "a:1",
            "kafka.fetch.max.wait.ms": "5",
            "kafka.buffer.memory": "1048576",
            "kafka.max.poll.records": "500",
            "kafka.linger.ms": "7",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.sasl.jaas.config": f'{PLAIN} required username="u" password="p\\"q";',
        }
    )
    assert settings == {
        "bootstrap.servers": "a:1",
        "fetch.wait.max.ms": "5",
        "queue.buffering.max.kbytes": "1024",
        "linger.ms": "7",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.username": "u",
        "sasl.password": 'p"q',
    }
    assert "linger.ms" not in client.for_consumer(settings, "g") and "fetch.wait.max.ms" not in client.for_producer(
        settings
    )
    assert client.for_producer(settings)["partitioner"] == "murmur2_random"
    assert client.for_producer(settings)["enable.idempotence"] == "true"
    assert "enable.idempotence" not in client.for_producer(settings | {"acks": "1"})


def test_what_a_writer_may_be_told() -> None:
    base = {"kafka.bootstrap.servers": "a:1"}
    assert options.writing(base | {"Topic": "t"}).topic == "t"
    assert options.writing(base).topic is None and options.writing(base).marks_missing == "refuse"
    for wrong, message in (
        ({"delivery": "exactly_once"}, "unknown option delivery"),
        ({"marksMissing": "ignore"}, "refuse or renew"),
        ({"kafka.transactional.id": "x"}, "is not supported"),
        ({"topics": "x"}, "did you mean 'topic'"),
    ):
        with pytest.raises(OptionError, match=message):
            options.writing(base | wrong)


def test_librdkafkas_names_of_security_become_javas_for_sparks_connector() -> None:
    given = {
        "subscribe": "t",
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": 'p"q',
        "kafka.ssl.ca.location": "/ca.pem",
    }
    assert client.for_java(given) == {
        "subscribe": "t",
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM} required username="u" password="p\\"q";',
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.ssl.truststore.type": "PEM",
    }


def test_javas_own_settings_of_security_go_to_sparks_connector_as_they_are() -> None:
    given = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.login.callback.handler.class": "org.x.Handler"}
    assert client.for_java(given) == given


def test_settings_of_security_are_those_of_all_clients() -> None:
    assert client.SECURITY_PREFIXES == SECURITY_PREFIXES
