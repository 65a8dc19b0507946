// An event of the cluster in words, and what it concerns.

const SAID = {
  leader_elected: ({ after, before }, where) => `${where} is led by ${after.leader}${before.leader >= 0 ? `, before by ${before.leader}` : ""}`,
  leader_lost: ({ before }, where) => `${where} has no leader${before.leader >= 0 ? `, before it was ${before.leader}` : ""}`,
  isr_changed: ({ after, before }, where) => `${where}: in sync ${after.isr.join(", ")}${before.isr ? `, before ${before.isr.join(", ")}` : ""}`,
  broker_registered: ({ broker }) => `broker ${broker} has registered`,
  broker_fenced: ({ broker }) => `broker ${broker} is fenced`,
  broker_unfenced: ({ broker }) => `broker ${broker} is alive`,
  broker_shutting_down: ({ broker }) => `broker ${broker} is shutting down`,
  broker_unregistered: ({ broker }) => `broker ${broker} is no longer registered`,
  topic_created: ({ topic }) => `topic ${topic} is created`,
  topic_deleted: ({ topic }) => `topic ${topic} is deleted`,
  config_changed: ({ topic, broker }) => `configs of ${topic ? `topic ${topic}` : broker === null ? "the cluster" : `broker ${broker}`} are changed`,
};

/** Say what happened; null for events that are not for people. */
export function told(event) {
  return SAID[event.kind]?.(event.data, `${event.data.topic}-${event.data.partition}`) ?? null;
}

export function aboutBrokers(event) {
  return event.kind.startsWith("broker_") || event.kind === "reconnected";
}
