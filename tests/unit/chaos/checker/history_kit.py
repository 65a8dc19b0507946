"""Small histories by hand: a builder whose lines read like the story they tell."""

from kvorum.chaos.checker import Verdict, check
from kvorum.chaos.history import (
    AnyEvent,
    ClusterShape,
    Fail,
    Fault,
    Image,
    Info,
    Invoke,
    Metadata,
    NodeShape,
    Ok,
    OperationValue,
    Owned,
    Process,
    Replica,
    Stable,
    Start,
    TopicShape,
)

P = "orders-0"


class History:
    """Events a tenth of a second apart, unless told otherwise."""

    def __init__(self, *, nodes: int = 3, unclean: bool = False, min_isr: int = 2) -> None:
        self.events: list[AnyEvent] = []
        self.t = 0.0
        self._op = 0
        self._metadata_offset = 0
        self._fault = 0
        shape = {f"node-{id}": NodeShape(id=id, roles=["broker", "controller"]) for id in range(1, nodes + 1)}
        configs = {"min.insync.replicas": str(min_isr)}
        if unclean:
            configs["unclean.leader.election.enable"] = "true"
        topics = {"orders": TopicShape(partitions=2, replication_factor=nodes, configs=configs)}
        self.events.append(Start(t=0.0, cluster=ClusterShape(nodes=shape), topics=topics))

    def tick(self) -> float:
        self.t = round(self.t + 0.1, 6)
        return self.t

    def wait(self, seconds: float) -> "History":
        self.t += seconds
        return self

    def process(self, process: int, **promises: object) -> "History":
        self.events.append(Process(t=self.tick(), process=process, **promises))  # type: ignore[arg-type]
        return self

    def begin(self, process: int, f: str, value: OperationValue, *, final: bool = False) -> int:
        """Write an invocation; returns its number."""
        self._op += 1
        self.events.append(Invoke(t=self.tick(), op=self._op, process=process, f=f, value=value, final=final))
        return self._op

    def end(self, op: int, kind: type[Ok | Fail | Info], value: OperationValue, **fields: object) -> "History":
        """Write the completion of an operation."""
        begun = next(e for e in reversed(self.events) if isinstance(e, Invoke) and e.op == op)
        self.events.append(
            kind(t=self.tick(), op=op, process=begun.process, f=begun.f, value=value, final=begun.final, **fields)  # type: ignore[arg-type]
        )
        return self

    def send(self, value: int, offset: int | None = None, *, process: int = 1, at: str = P) -> "History":
        """A send that is acknowledged at this offset."""
        op = self.begin(process, "send", [["send", at, value]])
        return self.end(op, Ok, [["send", at, value, offset]])

    def send_info(self, value: int, *, process: int = 1, at: str = P) -> "History":
        op = self.begin(process, "send", [["send", at, value]])
        return self.end(op, Info, [["send", at, value]], error="REQUEST_TIMED_OUT")

    def send_fail(self, value: int, *, process: int = 1, at: str = P) -> "History":
        op = self.begin(process, "send", [["send", at, value]])
        return self.end(op, Fail, [["send", at, value]], error="NOT_ENOUGH_REPLICAS")

    def poll(
        self,
        *records: tuple[int, ...],
        process: int = 9,
        at: str = P,
        kind: type[Ok | Fail | Info] = Ok,
        final: bool = False,
        rebalance: bool = False,
    ) -> "History":
        """A poll of these (offset, value) records."""
        op = self.begin(process, "poll", [["poll"]], final=final)
        moved = [at] if rebalance else []
        return self.end(op, kind, [["poll", {at: [list(record) for record in records]}]], rebalance=moved)

    def assign(self, *partitions: str, process: int = 9, final: bool = False, from_start: bool = False) -> "History":
        op = self.begin(process, "assign", list(partitions), final=final)
        return self.end(op, Ok, list(partitions), seek_to_beginning=from_start)

    def subscribe(self, *partitions: str, process: int = 9) -> "History":
        op = self.begin(process, "subscribe", list(partitions))
        return self.end(op, Ok, list(partitions))

    def final(self, *records: tuple[int, ...], at: str = P, process: int = 90) -> "History":
        """A fresh reader that reads a partition from its beginning, when all is healed."""
        self.assign(at, process=process, final=True, from_start=True)
        return self.poll(*records, process=process, at=at, final=True)

    def txn(
        self,
        steps: OperationValue,
        *,
        kind: type[Ok | Fail | Info] = Ok,
        committed: bool | None = True,
        process: int = 5,
        open_for: float = 0.0,
        **fields: object,
    ) -> "History":
        """A transaction; `open_for` seconds pass before its end is asked for (0: nobody noted when that was)."""
        begun: OperationValue = [step[:3] if isinstance(step, list) and step[0] == "send" else step for step in steps]
        begun = [["poll"] if isinstance(step, list) and step[0] == "poll" else step for step in begun]
        op = self.begin(process, "txn", begun)
        if open_for:
            fields["ended"] = self.wait(open_for).t
        return self.end(op, kind, steps, committed=committed, **fields)

    def commit(
        self,
        offset: int,
        *,
        process: int = 5,
        at: str = P,
        kind: type[Ok | Fail | Info] = Ok,
        generation: int | None = None,
        reset: bool = False,
    ) -> "History":
        """A commit of one partition's offset in group G."""
        op = self.begin_commit(offset, process=process, at=at, reset=reset)
        return self.end(op, kind, [["offset", "G", at, offset]], generation=generation)

    def begin_commit(self, offset: int, *, process: int = 5, at: str = P, reset: bool = False) -> int:
        self._op += 1
        value: OperationValue = [["offset", "G", at, offset]]
        self.events.append(Invoke(t=self.tick(), op=self._op, process=process, f="commit", value=value, reset=reset))
        return self._op

    def fetch(self, offset: int, *, process: int = 6, at: str = P, final: bool = False) -> "History":
        """A fetch of group G's committed offset; -1 for none."""
        op = self.begin(process, "offsets", [["offset", "G", at]], final=final)
        return self.end(op, Ok, [["offset", "G", at, offset]])

    def owns(self, process: int, *partitions: str, session: float = 5.0, **fields: object) -> "History":
        """A member of group G owns these from now on."""
        event = Owned(
            t=self.tick(),
            process=process,
            group="G",
            partitions=list(partitions),
            session=session,
            **fields,  # type: ignore[arg-type]
        )
        self.events.append(event)
        return self

    def stable(self, last_stable_offset: int, high_watermark: int, *, at: str = P) -> "History":
        self.events.append(
            Stable(t=self.tick(), partition=at, last_stable_offset=last_stable_offset, high_watermark=high_watermark)
        )
        return self

    def metadata(self, **record: object) -> "History":
        self._metadata_offset += 1
        self.events.append(Metadata(t=self.tick(), offset=self._metadata_offset, epoch=1, record=dict(record)))
        return self

    def created(self, *, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, partition: int = 0) -> "History":
        """The topic and one partition come to be."""
        self.metadata(type="Topic", name="orders", topic_id="T")
        return self.metadata(
            type="Partition",
            topic_id="T",
            partition_id=partition,
            replicas=[1, 2, 3],
            isr=list(isr),
            leader=leader,
            leader_epoch=0,
        )

    def change(self, partition: int = 0, **fields: object) -> "History":
        return self.metadata(type="PartitionChange", topic_id="T", partition_id=partition, **fields)

    def fault(
        self, kind: str, *targets: str, lossy: bool = False, seconds: float = 0.1, partitions: tuple[str, ...] = ()
    ) -> "History":
        """A fault that begins and ends; with `partitions` it took theirs, as is known at its end."""
        self._fault += 1
        names = list(targets)
        self.events.append(
            Fault(
                t=self.tick(), fault=kind, id=self._fault, phase="begin", targets=names, lossy=lossy, story=f"{kind} it"
            )
        )
        self.wait(seconds)
        self.events.append(
            Fault(
                t=self.tick(),
                fault=kind,
                id=self._fault,
                phase="end",
                targets=names,
                lossy=bool(partitions),
                partitions=list(partitions),
            )
        )
        return self

    def replica(
        self,
        node: int,
        *,
        end: int,
        high_watermark: int | None = None,
        start: int = 0,
        epochs: list[list[int]] | None = None,
        batches: list[tuple[int, int, str]] | None = None,
        at: str = P,
    ) -> "History":
        if batches is None:
            batches = [(offset, offset, f"{offset:08x}") for offset in range(start, end)]
        mark = end if high_watermark is None else high_watermark
        self.events.append(
            Replica(
                t=self.tick(),
                node=node,
                partition=at,
                start=start,
                high_watermark=mark,
                end=end,
                epochs=epochs or [[0, 0]],
                batches=batches,
            )
        )
        return self

    def image(self, node: str, offset: int, hash: str) -> "History":
        self.events.append(Image(t=self.tick(), node=node, offset=offset, hash=hash))
        return self

    def check(self, *, ww: bool = False, strict: bool = False) -> Verdict:
        return check(self.events, ww=ww, strict=strict)

    def anomalies(self, *, ww: bool = False) -> list[str]:
        """The names of all violations, sorted."""
        return sorted(violation.anomaly for violation in self.check(ww=ww).violations)

    def excused(self) -> list[str]:
        """The names of what was legal; there must be no violation."""
        verdict = self.check()
        assert verdict.valid, verdict.violations
        return sorted(explained.anomaly for explained in verdict.explained)
