"""Decisions of the active controller: pure functions of the image, one module per subject.

    (Context, request) -> Result(records, response)        refuses a request as a whole: KafkaError(code, message)
    (Context) -> Result(records, response)                 periodic tasks of the controller

`context` says what a decision sees, `result` what it is. Requests: registration, liveness (heartbeats),
alter_partition, elections, create_topics, change_topics, configs_control, producer_ids, features. Duties:
liveness.fence_stale_brokers, liveness.fence_refused_broker, elections.balance_leaders, elections.sweep_unclean.
Beneath them: partition_change and leader_isr (who leads, who is in sync), placement and assignments (where replicas
go), config_schema, topic_names. `heartbeats` is the only state, and a new active controller begins it anew.

Time, chance, files and sockets never come in here but as arguments; whoever calls replays the records into the
speculative image at once, appends them as one change, and answers when that is committed.
"""
