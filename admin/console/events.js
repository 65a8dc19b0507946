// An event of the cluster in words, and what it concerns.

/** Who led before may be nobody (-1), or not known (null). */
const someone = (broker) => typeof broker === "number" && broker >= 0;

const SAID = {
  leader_elected: ({ after, before }, where) => `${where} is led by ${after.leader}${someone(before.leader) ? `, before by ${before.leader}` : ""}`,
  leader_lost: ({ before }, where) => `${where} has no leader${someone(before.leader) ? `, before it was ${before.leader}` : ""}`,
  isr_changed: ({ after, before }, where) => `${where}: in sync ${after.isr.join(", ")}${before.isr ? `, before ${before.isr.join(", ")}` : ""}`,
  broker_registered: ({ broker }) => `broker ${broker} has registered`,
  broker_fenced: ({ broker }) => `broker ${broker} is fenced`,
  broker_unfenced: ({ broker }) => `broker ${broker} is alive`,
  broker_shutting_down: ({ broker }) => `broker ${broker} is shutting down`,
  broker_unregistered: ({ broker }) => `broker ${broker} is no longer registered`,
  topic_created: ({ topic }) => `topic ${topic} is created`,
  topic_deleted: ({ topic, topic_id: id }) => `topic ${topic ?? `with the id ${id}`} is deleted`,
  config_changed: ({ topic, after }) => `configs of ${topic ? `topic ${topic}` : configured(after)} are changed`,
  quota_changed: ({ after }) => `quotas of ${Object.entries(after.entity).map(([type, name]) => `${type} ${name ?? "(default)"}`).join(", ")} are changed`,
  feature_changed: ({ after }) => `feature ${after.name} is at level ${after.level}`,
  reassignment_changed: ({ after }, where) => moving(after, where),
  missed: () => "some of what happened before this is not told any more",
};

const CONFIGURED = { 4: "broker", 16: "client metrics", 32: "group" };

/** Whose configs an event is about; a broker's without a name are those of all brokers. */
function configured({ resource_type: type, resource }) {
  if (type === 4 && !resource) return "all brokers";
  return `${CONFIGURED[type] ?? `resource ${type}`} ${resource}`;
}

function moving(after, where) {
  if (after.adding_replicas?.length || after.removing_replicas?.length) return `${where} is being moved to ${after.replicas.filter((each) => !after.removing_replicas?.includes(each)).join(", ")}`;
  return after.replicas ? `${where} has its replicas on ${after.replicas.join(", ")}` : `${where} is not being moved any more`;
}

/** Say what happened; null for events that are not for people. */
export function told(event) {
  return SAID[event.kind]?.(event.data, `${event.data.topic}-${event.data.partition}`) ?? null;
}

export function aboutBrokers(event) {
  return event.kind.startsWith("broker_") || event.kind === "reconnected";
}

const TOGETHER_MS = 2000;
const ALONE_MAX = 3;
const MANY = {
  leader_elected: (topic, many) => `${topic}: ${many} partitions are led by other brokers`,
  leader_lost: (topic, many) => `${topic}: ${many} partitions have no leader`,
  reassignment_changed: (topic, many) => `${topic}: the assignments of ${many} partitions are changed`,
  isr_changed: (topic, many) => `${topic}: the in-sync replicas of ${many} partitions are others`,
};

/**
 * Return lines ({ at, text }) of events, newest first: what happened to many partitions of a topic at the same time is
 * one line, so that a broker's death does not hide what else it meant. `when`: the time of an event; its own, unless it is
 * to be another.
 */
export function lines(events, when = (event) => event.data.timestamp_ms ?? event.at) {
  const found = [];
  const open = new Map();
  for (const event of events) {
    const text = told(event);
    if (text === null) continue;
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
