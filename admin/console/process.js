// Data of a cluster process, or the reason for its absence; and its actions.

import { post, url } from "./api.js";
import { badge, card, confirm, h, note } from "./dom.js";
import { bytes, lasting } from "./format.js";

/** The API's errors for unreachable processes, with a remedy if the message has none. */
const SILENT = {
  NO_METRICS_LISTENER: "Set it in the configuration of the node and restart the node.",
  NOT_KVORUM: "",
  NODE_UNREACHABLE: "",
  NODE_REFUSED: "The node uses other tokens than the admin server of this console.",
  NODE_FAILED: "",
  ANOTHER_NODE: "The address belongs to another node: check the configuration.",
  NO_NODE_PAGES: "The node runs an older release.",
  NO_CONTROLLER_ADDRESS: "The address of this controller is unknown: it is an observer without a broker on its node.",
  NO_SUCH_ROLE: "",
};

/** A process's data; an Error to show instead if it is unreachable. */
export async function told(answer) {
  try {
    return await answer;
  } catch (error) {
    if (!(error.error in SILENT)) throw error;
    return error;
  }
}

/** Placeholder for missing data of a process. */
export function silentCard(title, error) {
  return card(title, h("p", {}, badge(error.error, error.passing ? "bad" : "warn"), ` ${error.message}. ${SILENT[error.error] ?? ""}`));
}

/** A dash for missing data of a broker, with the reason as a tooltip. */
function untold(broker) {
  return h("span", { class: "quiet", title: broker.process_message ?? broker.process_error ?? "not available" }, "–");
}

export function versionOf(broker) {
  return broker.version ?? untold(broker);
}

export function uptimeOf(broker) {
  return (broker.uptime_ms ?? null) === null ? untold(broker) : h("span", { class: "whole" }, lasting(broker.uptime_ms));
}

/** A broker's registration, and the reason for missing process data. */
export function registrationCard(broker) {
  const why = broker.registration_error;
  const dirs = broker.log_dirs ?? [];
  const row = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return card("Registration and process",
    broker.process_error && h("p", {}, badge(broker.process_error, "warn"), ` Version and uptime are not available: ${broker.process_message ?? ""}. ${SILENT[broker.process_error] ?? ""}`),
    why && h("p", {}, badge(why, "warn"), " The registration is not available."),
    h("dl", { class: "pairs" },
      row("Version", versionOf(broker)),
      row("Uptime", uptimeOf(broker)),
      row("Epoch", broker.epoch ?? "–"),
      row("Incarnation", h("span", { class: "mono" }, broker.incarnation_id ?? "–")),
      row("Directories", dirs.length ? h("ul", { class: "plain" }, dirs.map((dir) => h("li", { "data-key": `dir-${dir.id}` },
        h("span", { class: "mono" }, dir.id), " ", dir.online ? badge("online", "good") : badge("offline", "bad"), dir.cordoned && [" ", badge("cordoned: no new replicas", "warn")]))) : "–")));
}

/** Ask whether a broker's process is to end, and have it end. */
export function shutDown(id, view) {
  confirm({
    title: `Controlled shutdown of broker ${id}`,
    text: [
      "Leadership moves to other in-sync replicas. Then all processes of the node end, including its controller and this console, if the node serves it.",
      "The broker stays down until its node is started again. The console cannot start it.",
    ],
    action: "Shut down",
    async done() {
      await post(url(["v1", "brokers", id, "controlled-shutdown"]));
      note(`Broker ${id} is shutting down. It stays down until its node is started again.`);
      view.look();
    },
  });
}

/** Make a controller write a snapshot now, and show the result; `controller` null: the active one. */
export async function writeSnapshot(controller = null) {
  const made = await post(url(["v1", "metadata", "snapshot"], { controller }));
  const what = `up to offset ${made.end_offset} (epoch ${made.epoch}), ${bytes(made.bytes)}`;
  note(made.written ? `Controller ${made.controller} wrote a snapshot ${what}, in ${Math.round(made.took_ms)} ms.`
    : `Controller ${made.controller} has no records since its last snapshot: ${what}.`);
  return made;
}
