// Text and subject of a cluster event.

/** The leader before an election: -1 is none, null is unknown. */
const isBroker = (id) => typeof id === "number" && id >= 0;

const TEXTS = {
  leader_elected: ({ after, before }, where) => `${where}: leader ${after.leader}${isBroker(before.leader) ? ` (was ${before.leader})` : ""}`,
  leader_lost: ({ before }, where) => `${where}: no leader${isBroker(before.leader) ? ` (was ${before.leader})` : ""}`,
  isr_changed: ({ after, before }, where) => `${where}: ISR ${after.isr.join(", ")}${before.isr ? ` (was ${before.isr.join(", ")})` : ""}`,
  broker_registered: ({ broker }) => `broker ${broker} registered`,
  broker_fenced: ({ broker }) => `broker ${broker} fenced`,
  broker_unfenced: ({ broker }) => `broker ${broker} unfenced`,
  broker_shutting_down: ({ broker }) => `broker ${broker} started a controlled shutdown`,
  broker_unregistered: ({ broker }) => `broker ${broker} unregistered`,
  topic_created: ({ topic }) => `topic ${topic} created`,
  topic_deleted: ({ topic, topic_id: id }) => `topic ${topic ?? `with id ${id}`} deleted`,
  config_changed: ({ topic, after }) => `configs of ${topic ? `topic ${topic}` : configured(after)} changed`,
  quota_changed: ({ after }) => `quotas of ${Object.entries(after.entity).map(([type, name]) => `${type} ${name ?? "(default)"}`).join(", ")} changed`,
  feature_changed: ({ after }) => `feature ${after.name} set to level ${after.level}`,
  reassignment_changed: ({ after }, where) => moving(after, where),
  missed: () => "some earlier events are not available any more",
};

const CONFIGURED = { 4: "broker", 16: "client metrics", 32: "group" };

/** Whose configs an event is about; a broker's without a name are those of all brokers. */
function configured({ resource_type: type, resource }) {
  if (type === 4 && !resource) return "all brokers";
  return `${CONFIGURED[type] ?? `resource ${type}`} ${resource}`;
}

function moving(after, where) {
  if (after.adding_replicas?.length || after.removing_replicas?.length) return `${where}: reassignment to ${after.replicas.filter((each) => !after.removing_replicas?.includes(each)).join(", ")} started`;
  return after.replicas ? `${where}: replicas ${after.replicas.join(", ")}` : `${where}: reassignment ended`;
}

/** Return the text of an event; null for events that are not for people. */
export function told(event) {
  return TEXTS[event.kind]?.(event.data, `${event.data.topic}-${event.data.partition}`) ?? null;
}

export function aboutBrokers(event) {
  return event.kind.startsWith("broker_") || event.kind === "reconnected";
}

const TOGETHER_MS = 2000;
const ALONE_MAX = 3;
const MANY = {
  leader_elected: (topic, many) => `${topic}: new leaders for ${many} partitions`,
  leader_lost: (topic, many) => `${topic}: no leader for ${many} partitions`,
  reassignment_changed: (topic, many) => `${topic}: assignments of ${many} partitions changed`,
  isr_changed: (topic, many) => `${topic}: ISR of ${many} partitions changed`,
};

/** What the fencing of a broker caused, by kind of event: whether this one is a part of it. */
const CAUSED = {
  leader_elected: ({ before }, broker) => before?.leader === broker,
  leader_lost: ({ before }, broker) => before?.leader === broker,
  isr_changed: ({ before, after }, broker) => Boolean(before?.isr?.includes(broker)) && !after.isr.includes(broker),
};

/** Return {events, text}: one line for a fenced broker's effects on partitions, within TOGETHER_MS of the fencing. */
function outage(fenced, events, when) {
  const at = when(fenced);
  const broker = fenced.data.broker;
  const caused = events.filter((each) => CAUSED[each.kind]?.(each.data, broker) && Math.abs(when(each) - at) < TOGETHER_MS);
  const partitions = (kind) => new Set(caused.filter((each) => each.kind === kind).map(({ data }) => `${data.topic}-${data.partition}`)).size;
  const [led, lost, shrunk] = ["leader_elected", "leader_lost", "isr_changed"].map(partitions);
  const times = [at, ...caused.map(when)];
  const took = Math.max(...times) - Math.min(...times);
  const parts = [
    led > 0 && `new leaders for ${led} partition${led === 1 ? "" : "s"}`,
    lost > 0 && `no leader for ${lost}`,
    shrunk > 0 && `${shrunk} ISR${shrunk === 1 ? "" : "s"} shrunk`,
  ].filter(Boolean);
  return { events: caused, text: `broker ${broker} fenced${parts.length ? `: ${parts.join(", ")}${took > 0 ? `, within ${took} ms` : ""}` : ""}` };
}

/**
 * Return lines ({ at, text }) of events, newest first. The effects of a fenced broker are one line, also simultaneous events of many
 * partitions of a topic. `when`: the time of an event; its own by default.
 */
export function lines(events, when = (event) => event.data.timestamp_ms ?? event.at) {
  const found = [];
  const open = new Map();
  const outages = new Map(events.filter((each) => each.kind === "broker_fenced").map((each) => [each, outage(each, events, when)]));
  const counted = new Set([...outages.values()].flatMap((each) => each.events));
  for (const event of events) {
    const text = outages.get(event)?.text ?? told(event);
    if (text === null || counted.has(event)) continue;
    const at = when(event);
    const about = `${event.kind} ${event.data.topic}`;
    const line = MANY[event.kind] && open.get(about);
    if (line && line.at - at < TOGETHER_MS) {
      line.events.push(text);
    } else {
      const begun = { at, event, events: [text] };
      open.set(about, begun);
      found.push(begun);
    }
  }
  return found.flatMap(({ at, event, events: texts }) =>
    texts.length > ALONE_MAX ? [{ at, text: MANY[event.kind](event.data.topic, texts.length) }] : texts.map((text) => ({ at, text })));
}
