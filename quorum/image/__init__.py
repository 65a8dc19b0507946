"""Immutable pictures of the metadata (XImage) and the changes that lead from one to the next (XDelta).

    log -> transactions.TransactionBuffer -> MetadataDelta.replay ... -> MetadataDelta.apply -> MetadataImage

One module a subject: cluster, topics (with partition, index, topics_delta), configs, features, producer_ids,
client_quotas, scram, delegation_tokens; `metadata` puts them together, `difference` leads from an image to one that
came as a snapshot.
"""

from kvorum.quorum.image.difference import delta_between
from kvorum.quorum.image.metadata import MetadataDelta, MetadataImage
from kvorum.quorum.image.transactions import InvalidTransaction, TransactionBuffer, split_into_batches

__all__ = [
    "InvalidTransaction",
    "MetadataDelta",
    "MetadataImage",
    "TransactionBuffer",
    "delta_between",
    "split_into_batches",
]
