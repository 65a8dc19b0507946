"""Decisions of the active controller: pure functions of the image, one module per subject.

    (Context, request) -> Result(records, response)        refuses a request as a whole: KafkaError(code, message)
    (Context) -> Result(records, response)                 periodic tasks of the controller

`context` has the input of a decision, `result` its output. Requests: registration, liveness (heartbeats),
alter_partition, elections, create_topics, change_topics, configs_control, producer_ids, features, scram_control,
delegation_token_control. Periodic tasks: liveness.fence_stale_brokers, liveness.fence_refused_broker,
elections.balance_leaders, elections.sweep_unclean, delegation_token_control.sweep_expired_tokens. Shared parts:
partition_change and leader_isr (leaders and ISRs), placement and assignments (replicas), config_schema, topic_names.
`heartbeats` is the only state; a new active controller starts with an empty one.

Time, randomness, files and sockets are never used except as arguments; the caller replays the records into the
speculative image at once, appends them as one change, and answers when that is committed.
"""
