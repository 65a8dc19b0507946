// Groups with their lag; one group with its members and offsets, and a wizard that sets offsets back.

import { get, post, remove, url } from "./api.js";
import { ask, badge, card, field, figure, h, note, select, table } from "./dom.js";
import { count } from "./format.js";
import { setQuery } from "./view.js";

const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn" };
const WAYS = [["earliest", "the oldest records"], ["latest", "the end"], ["at", "a moment"], ["by_duration", "so long ago"], ["shift_by", "so many records on or back"], ["offset", "an offset"], ["current", "where it is"]];
const PLAIN = ["earliest", "latest", "current"];

export function open(values, query) {
  return values.group === undefined ? all(query) : one(values.group);
}

function all(query) {
  const view = {
    title: "Groups",
    tools: h("div", { class: "tools" },
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("prefix") ?? "", placeholder: "how the name begins", oninput: (event) => {
        setQuery(query, "prefix", event.target.value);
        view.look();
      } }))),
    load: (signal) => get(url(["v1", "groups"], { prefix: query.get("prefix"), limit: 500 }), { signal }),
    draw: (page) => card(null, table("Groups", [
      { title: "Group", cell: (group) => h("a", { href: `#/groups/${encodeURIComponent(group.group_id)}`, "data-key": `group-${group.group_id}` }, group.group_id) },
      { title: "State", cell: (group) => badge(group.state, STATES[group.state]) },
      { title: "Kind", cell: (group) => group.type },
    ], page.groups, "No group has been here: a consumer with a group.id makes one.")),
  };
  return view;
}

function one(id) {
  const path = (...more) => url(["v1", "groups", id, ...more]);
  const view = {
    title: id,
    actions: [
      h("button", { type: "button", onclick: () => reset() }, "Set offsets"),
      h("button", { type: "button", class: "danger", onclick: () => drop() }, "Delete"),
    ],
    load: (signal) => get(path(), { signal }),
    draw: (group) => [
      h("dl", { class: "figures" },
        figure("State", group.state), figure("Kind", group.type), figure("Members", count(group.members.length)),
        figure("Lag", count(lagOf(group)), lagOf(group) ? "warn" : ""), figure("Coordinator", `broker ${group.coordinator}`), figure("Assignor", group.protocol || "–", "small")),
      card("Offsets", table("Offsets", [
        { title: "Partition", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, `${each.topic}-${each.partition}`) },
        { title: "Offset", number: true, cell: (each) => count(each.committed_offset) },
        { title: "End", number: true, cell: (each) => count(each.end_offset) },
        { title: "Lag", number: true, cell: (each) => (each.lag ? badge(count(each.lag), "warn") : count(each.lag)) },
        { title: "Member", cell: (each) => each.member_id },
      ], group.offsets, "Nothing is committed.")),
      card("Members", table("Members", [
        { title: "Member", cell: (member) => h("span", { class: "mono" }, member.member_id) },
        { title: "Client", cell: (member) => member.client_id },
        { title: "Host", cell: (member) => member.host },
        { title: "Instance", cell: (member) => member.instance_id },
        { title: "Has", cell: (member) => placed(member.assignment) },
        { title: "Is to have", cell: (member) => placed(member.target_assignment) },
        // Members of the consumer protocol are nobody's to send away: the coordinator knows of no such request.
        { title: "", cell: (member) => (member.protocol === "classic" ? h("button", { type: "button", class: "plain", "data-key": `remove-${member.member_id}`, "aria-label": `Remove ${member.member_id}`, onclick: () => away(member) }, "Remove") : "") },
      ], group.members, "Nobody is in the group.")),
    ],
  };

  function away(member) {
    ask({
      title: `Remove ${member.instance_id ?? member.client_id}`,
      content: [
        h("p", {}, "Its partitions go to the other members, and what it read and did not commit is read again. A consumer that is still running joins again by itself."),
        h("p", { class: "mono" }, member.member_id),
        field("Reason", h("input", { name: "reason", maxlength: 255, autocomplete: "off" }), "for the coordinator's log"),
      ],
      action: "Remove", danger: true,
      async submit(data) {
        await remove(url(["v1", "groups", id, "members", member.member_id], { reason: data.get("reason") || null }));
        note(`${member.instance_id ?? member.client_id} is removed.`);
        view.look();
      },
    });
  }

  function drop() {
    ask({
      title: `Delete ${id}`,
      content: h("p", {}, "Its offsets are forgotten. A group with members is refused."),
      action: "Delete", danger: true,
      async submit() {
        await remove(path());
        note(`${id} is deleted.`);
        location.hash = "#/groups";
      },
    });
  }

  // Two steps: what would be set is shown before anything is.
  function reset() {
    const plan = h("div", { "aria-live": "polite" });
    const at = h("input", { name: "at", autocomplete: "off" });
    const way = select("to", WAYS, "earliest");
    const hint = h("small", {});
    const which = field("Which", at);
    const fit = () => {
      at.type = { at: "datetime-local", shift_by: "number", offset: "number" }[way.value] ?? "text";
      which.hidden = PLAIN.includes(way.value);
      hint.textContent = { by_duration: "as in PT1H30M or P2D", shift_by: "-100: a hundred back", at: "in your own zone" }[way.value] ?? "";
      plan.replaceChildren();
      tried = null;
      button().textContent = "Show what would be set";
    };
    let tried = null;
    const button = () => dialog.querySelector("button[type=submit]");
    const dialog = ask({
      title: `Set offsets of ${id}`,
      content: [
        field("To", way), which, hint,
        field("Topics", h("input", { name: "topics", placeholder: "all it has offsets of", autocomplete: "off" }), "names, with commas between"),
        plan,
      ],
      action: "Show what would be set",
      async submit(data) {
        const body = requestOf(data);
        const text = JSON.stringify(body);
        const sure = tried === text;
        const made = await post(`${path("offsets", "reset")}?dry_run=${sure ? "false" : "true"}`, body);
        if (sure) {
          const failed = made.partitions.filter((each) => each.error);
          if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.error}`).join("; "));
          note(`${count(made.partitions.length)} offsets are set.`);
          view.look();
          return;
        }
        tried = text;
        plan.replaceChildren(table("What would be set", [
          { title: "Partition", cell: (each) => `${each.topic}-${each.partition}` },
          { title: "Now", number: true, cell: (each) => count(each.before) },
          { title: "Then", number: true, cell: (each) => count(each.after) },
          { title: "", cell: (each) => each.note ?? "" },
        ], made.partitions, "Nothing would be set: the group has no place anywhere; name topics."));
        button().textContent = "Set them";
        throw new Error("");
      },
    });
    way.addEventListener("change", fit);
    fit();
  }
  return view;
}

function requestOf(data) {
  const way = data.get("to");
  const at = data.get("at");
  const topics = data.get("topics").split(",").map((each) => each.trim()).filter(Boolean);
  if (!PLAIN.includes(way) && !at) throw new Error("It is not said which.");
  const body = PLAIN.includes(way) ? { to: way }
    : { [way]: { at: () => new Date(at).toISOString(), by_duration: () => at, shift_by: () => Number(at), offset: () => Number(at) }[way]() };
  if (topics.length) body.topics = Object.fromEntries(topics.map((topic) => [topic, null]));
  return body;
}

function lagOf(group) {
  return group.offsets.reduce((sum, each) => sum + (each.lag ?? 0), 0);
}

function placed(assignment) {
  return Object.entries(assignment ?? {}).map(([topic, partitions]) => `${topic}: ${partitions.join(", ")}`).join("; ") || "–";
}
