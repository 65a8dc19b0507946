"""Entry point to the transaction coordinators of this broker: one method per request, for its handler.

Every method that decides raises KafkaError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE
where no decision can be made or written here; everything else is a code in the answer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.words import Decide
from kvorum.broker.coordinator.transaction import beginning, listing
from kvorum.broker.coordinator.transaction.listing import TransactionFilter
from kvorum.broker.coordinator.transaction.shard import ProducerIds, TransactionShard
from kvorum.broker.coordinator.transaction.state import TransactionsState
from kvorum.broker.coordinator.transaction.words import AddPartitions, Answer, EndTransaction, InitProducer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import describe_transactions
from kvorum.protocol.messages.list_transactions import ListTransactionsResponse
from kvorum.protocol.topic_partition import TopicPartition

Home: TypeAlias = CoordinatorPartition[TransactionsState, TransactionShard]


class Homes(Protocol):
    """The partitions of __transaction_state led here: a CoordinatorRuntime."""

    def active(self, key: str) -> Home:
        """Return where a transactional id lives. Raises KafkaError, see CoordinatorRuntime.active."""
        ...

    def all_active(self) -> Iterator[Home]:
        """Go over those on which decisions are taken here."""
        ...

    @property
    def is_loading(self) -> bool:
        """Whether some partition is being loaded."""
        ...


class TransactionCoordinator:
    """Entry point of transaction requests."""

    def __init__(self, homes: Homes, producer_ids: ProducerIds) -> None:
        """Decide on the partitions there are."""
        self._homes = homes
        self._producer_ids = producer_ids

    async def init_producer_id(self, request: InitProducer) -> Answer:
        """InitProducerId with a transactional id; one without needs no coordinator."""
        return await self._decide(
            request.transactional_id, "init-producer-id", lambda shard, id: shard.init_producer_id(request, id)
        )

    async def add_partitions(self, request: AddPartitions) -> ErrorCode:
        """AddPartitionsToTxn; AddOffsetsToTxn with `beginning.offsets_partition`. One code for all partitions."""
        answer = await self._decide(
            request.transactional_id, "add-partitions-to-txn", lambda shard, id: shard.add_partitions(request)
        )
        return answer.code

    async def end_transaction(self, request: EndTransaction) -> Answer:
        """EndTxn: answered when the end is certain; markers and completion follow."""
        return await self._decide(
            request.transactional_id, "end-txn", lambda shard, id: shard.end_transaction(request, id)
        )

    async def verify_partitions(self, request: AddPartitions) -> Mapping[TopicPartition, ErrorCode]:
        """AddPartitionsToTxn with verifyOnly: a code for each partition, from what is committed.

        After a failover it waits until earlier additions are certain: a rejection would end the transaction.
        """
        if not request.transactional_id:
            return beginning.verify_partitions(None, request)
        state = await self._home(request.transactional_id).read()
        return beginning.verify_partitions(state.get(request.transactional_id), request)

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        """One row of DescribeTransactions, with its error."""
        if not transactional_id:
            return listing.describe(TransactionsState(), transactional_id, None)
        try:
            home = self._home(transactional_id)
        except KafkaError as error:
            return describe_transactions.TransactionState(transactional_id=transactional_id, error_code=error.code)
        return listing.describe(home.committed_state, transactional_id, home.shard.unfinished(transactional_id))

    def list_transactions(self, wanted: TransactionFilter) -> ListTransactionsResponse:
        """ListTransactions over all partitions led here; COORDINATOR_LOAD_IN_PROGRESS while one is being loaded."""
        response = ListTransactionsResponse()
        if self._homes.is_loading:
            response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return response
        response.unknown_state_filters = wanted.unknown_state_names
        for home in self._homes.all_active():
            response.transaction_states += listing.list_matching(home.committed_state, wanted, home.wall_ms())
        return response

    def _home(self, transactional_id: str) -> Home:
        """Return where an id lives. Raises KafkaError NOT_COORDINATOR, also where the topic is not there yet (as Kafka,
        which does not look), COORDINATOR_LOAD_IN_PROGRESS.
        """
        try:
            return self._homes.active(transactional_id)
        except KafkaError as error:
            if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message or "") from error

    async def _decide(
        self,
        transactional_id: str,
        name: str,
        decide: Callable[[TransactionShard, int | None], Decide[TransactionsState, Answer | None]],
    ) -> Answer:
        """Decide, and once more with a new producer id if one is needed."""
        if not transactional_id:
            return Answer(ErrorCode.INVALID_REQUEST)
        home = self._home(transactional_id)
        answer = await home.write(name, decide(home.shard, None))
        if answer is not None:
            return answer
        try:
            producer_id = await self._producer_ids.next_producer_id()
        except KafkaError as error:
            return Answer(error.code)
        home = self._home(transactional_id)
        answer = await home.write(name, decide(home.shard, producer_id))
        assert answer is not None, "a new producer id was at hand"
        return answer
