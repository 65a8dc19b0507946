"""BrokerRegistration (62): v0-v4, and UnregisterBroker (64): v0 (ClusterControlManager).

Sans-IO. A broker's epoch is the offset at which the change that registers it begins: unique, growing, and the same for
a registration that the same incarnation sends again (KIP-631). The broker begins fenced; its heartbeats unfence it.
Order of the checks: cluster, other incarnation alive, log directories (KIP-858), listeners, features (KIP-584).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.broker_admin_state import STATE_KEY, cleared
from kvorum.quorum.controller.context import Context, is_reserved
from kvorum.quorum.controller.departure_throttle import throttle_consequences
from kvorum.quorum.controller.leader_isr import leaving_records, new_incarnation_records
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.image.features import METADATA_VERSION
from kvorum.quorum.records import Endpoint, FeatureRange, MetadataRecord, RegisterBroker, UnregisterBroker
from kvorum.quorum.steps import Steps
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE

METADATA_VERSION_MIN: Final = 7
"""3.3-IV3: the assumed level of a broker that does not report it."""

LISTENERS_MAX: Final = 64
LOG_DIRS_MAX: Final = 256
FEATURES_MAX: Final = 256
TEXT_LENGTH_MAX: Final = 255
"""Maximum length of a host, a rack, the name of a listener or a feature, in characters.

Far above any real broker; a registration becomes a record that every node keeps."""


def register_broker(context: Context, request: BrokerRegistrationRequest) -> Steps[Result[BrokerRegistrationResponse]]:
    """Register an incarnation; a new one first takes the old one's leaderships and places in ISRs, as one change.

    Raises KafkaError:
        INCONSISTENT_CLUSTER_ID: the broker belongs to another cluster. DUPLICATE_BROKER_REGISTRATION: another
        incarnation is unfenced and has a valid session; retry. INVALID_REGISTRATION: its log directories or listeners
        are invalid. UNSUPPORTED_VERSION: it does not support a finalized feature's level.
    """
    if request.cluster_id != context.settings.cluster_id:
        message = f"this is cluster {context.settings.cluster_id}, the broker belongs to {request.cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    existing = context.image.cluster.broker(request.broker_id)
    same_incarnation = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and not same_incarnation and context.heartbeats.has_valid_session(existing, context.now_ms):
        message = f"another broker is registered as {request.broker_id} and alive"
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, message)
    if request.broker_id < 0 or request.is_migrating_zk_broker:
        raise _invalid(
            f"broker {request.broker_id} cannot be registered: it must be a KRaft broker with an id of at least 0"
        )
    _check_texts(request)
    _check_log_dirs(context, request)
    _check_listeners(request)
    features = _checked_features(context, request)
    records: list[MetadataRecord] = []
    if not same_incarnation:
        records = yield from _old_incarnation_leaves(context, request, existing)
    broker_epoch = existing.broker_epoch if existing is not None and same_incarnation else context.next_offset
    records.append(_record(request, features, broker_epoch, existing if same_incarnation else None))
    context.heartbeats.register(request.broker_id, broker_epoch, context.now_ms)
    return Result(records=records, response=BrokerRegistrationResponse(broker_epoch=broker_epoch))


def _old_incarnation_leaves(
    context: Context, request: BrokerRegistrationRequest, existing: BrokerRegistration | None
) -> Steps[list[MetadataRecord]]:
    """Remove the old incarnation; the new one keeps the replicas covered by a clean shutdown (KIP-966).

    The file of a clean shutdown has the epoch that shut down: with another one, or without it, unsynced records may be
    lost. For a broker that was unregistered in between there is no epoch to compare with. Elections still wait for the
    last known leader of a partition: it is not electable while its directory is missing, and never after it has
    reported another log (assign_directories).
    """
    broker_id = request.broker_id
    if not context.elr_enabled:
        return [] if existing is None else (yield from leaving_records(context, broker_id))
    is_clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
    is_any_gone = existing is None or not {*existing.log_dirs, *existing.failed_log_dirs} <= {*request.log_dirs}
    return (
        yield from new_incarnation_records(
            context, broker_id, request.log_dirs, is_clean=is_clean, is_any_gone=is_any_gone
        )
    )


def unregister_broker(context: Context, request: UnregisterBrokerRequest) -> Steps[Result[UnregisterBrokerResponse]]:
    """Remove a broker: it leaves every ISR (except as the last member), and its replicas wait for its return.

    Raises KafkaError BROKER_ID_NOT_REGISTERED.
    """
    broker = context.image.cluster.broker(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    records = yield from leaving_records(context, request.broker_id)
    configs = context.image.configs.of(ResourceType.BROKER, str(request.broker_id))
    nothing = [cleared(request.broker_id, key) for key in (DECOMMISSION_THROTTLE, STATE_KEY) if key in configs]
    records += [*nothing, *(yield from throttle_consequences(context.image, nothing))]
    records.append(UnregisterBroker(broker_id=request.broker_id, broker_epoch=broker.broker_epoch))
    return Result(records=records, response=UnregisterBrokerResponse(error_message=None))


def _record(
    request: BrokerRegistrationRequest,
    features: tuple[FeatureRange, ...],
    broker_epoch: int,
    same: BrokerRegistration | None,
) -> RegisterBroker:
    # It may name failed directories: those do not return within one process lifetime.
    log_dirs = tuple(each for each in request.log_dirs if same is None or each in same.log_dirs)
    return RegisterBroker(
        broker_id=request.broker_id,
        broker_epoch=broker_epoch,
        incarnation_id=request.incarnation_id,
        endpoints=tuple(
            Endpoint(listener.name, listener.host, listener.port, listener.security_protocol)
            for listener in request.listeners
        ),
        features=features,
        rack=request.rack,
        fenced=True if same is None else same.fenced,
        in_controlled_shutdown=False if same is None else same.in_controlled_shutdown,
        log_dirs=log_dirs,
        previous_broker_epoch=request.previous_broker_epoch,
        cordoned_log_dirs=None if same is None else same.cordoned_log_dirs,
        failed_log_dirs=UNSET if same is None else same.failed_in(log_dirs) or UNSET,
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, message)


def _check_texts(request: BrokerRegistrationRequest) -> None:
    texts = [request.rack or "", *(feature.name for feature in request.features)]
    texts += [text for listener in request.listeners for text in (listener.name, listener.host)]
    if max(map(len, texts)) > TEXT_LENGTH_MAX:
        raise _invalid(f"the broker's rack, host or a name is longer than {TEXT_LENGTH_MAX} characters")


def _check_log_dirs(context: Context, request: BrokerRegistrationRequest) -> None:
    log_dirs = request.log_dirs
    if not log_dirs:
        raise _invalid("the registration has no log directory")
    if len(log_dirs) > LOG_DIRS_MAX:
        raise _invalid(f"the registration has {len(log_dirs)} log directories; the limit is {LOG_DIRS_MAX}")
    if any(is_reserved(directory) for directory in log_dirs):
        raise _invalid("the registration has a log directory with a reserved id")
    if len(set(log_dirs)) != len(log_dirs):
        raise _invalid("the registration has a duplicate log directory")
    owners: Mapping[Uuid, int] = {
        directory: broker.broker_id
        for broker in context.image.cluster.brokers.values()
        for directory in broker.log_dirs
    }
    for directory in log_dirs:
        owner = owners.get(directory, request.broker_id)
        if owner != request.broker_id:
            raise _invalid(f"log directory {directory} is registered by broker {owner}")


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    names = [listener.name for listener in request.listeners]
    if len(set(names)) != len(names):
        raise _invalid("the registration has a duplicate listener")
    if len(names) > LISTENERS_MAX:
        raise _invalid(f"the registration has {len(names)} listeners; the limit is {LISTENERS_MAX}")


def _checked_features(context: Context, request: BrokerRegistrationRequest) -> tuple[FeatureRange, ...]:
    """Return the broker's supported features, with every finalized one. Raises KafkaError UNSUPPORTED_VERSION."""
    if len(request.features) > FEATURES_MAX:
        raise _invalid(f"the registration has {len(request.features)} features; the limit is {FEATURES_MAX}")
    supported = {
        feature.name: FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    supported.setdefault(METADATA_VERSION, FeatureRange(METADATA_VERSION, METADATA_VERSION_MIN, METADATA_VERSION_MIN))
    for name, level in _levels_to_check(context, supported):
        known = supported.get(name) or FeatureRange(name, 0, 0)
        if not known.min_supported <= level <= known.max_supported:
            message = (
                f"level {level} of {name} is in use, "
                f"broker {request.broker_id} supports {known.min_supported} to {known.max_supported}"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    return tuple(supported[name] for name in sorted(supported))


def _levels_to_check(context: Context, supported: Mapping[str, FeatureRange]) -> Iterator[tuple[str, int]]:
    levels = context.image.features.levels
    for name in sorted({*levels, *supported}):
        yield name, levels.get(name) or (1 if name == METADATA_VERSION else 0)
