// One group with its members and offsets, kept up to date; what may be done to it.

import { get, remove, url } from "./api.js";
import { ask, badge, button, card, field, figure, figures, h, link, note } from "./dom.js";
import { star } from "./favourites.js";
import { count, plural } from "./format.js";
import { grid } from "./grid.js";
import { reset } from "./group-reset.js";
import { keptUp } from "./kept-up.js";

export function open({ group: id }, query) {
  const path = (...more) => url(["v1", "groups", id, ...more]);
  let known = null;
  const view = {
    title: id,
    actions: [
      star("group", id),
      button("Set offsets", () => reset(id, known, view), { kind: "", needs: "operate", key: "reset" }),
      button("Delete", () => drop(), { kind: "danger", needs: "admin", key: "drop" }),
    ],
    load: async (signal) => (known = await get(path(), { signal })),
    draw: (group) => {
      known = group;
      return [summary(group), offsets(group), members(group)];
    },
    cares: (event) => event.kind.startsWith("broker_") || event.kind === "reconnected",
    close: () => live.end(),
  };
  const live = keptUp(() => view, "group");
  live.follow(url(["v1", "live", "groups", id]));

  function offsets(group) {
    const topics = [...new Set(group.offsets.filter((each) => each.committed_offset !== null).map((each) => each.topic))];
    return card("Offsets", grid(view, query, "Offsets", [
      { title: "Partition", by: (each) => `${each.topic}-${each.partition}`,
        cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`, { key: `place-${each.topic}-${each.partition}` }) },
      { title: "Offset", number: true, by: (each) => each.committed_offset, cell: (each) => (each.committed_offset === null ? "–"
        : link(`#/topics/${encodeURIComponent(each.topic)}/messages?partitions=${each.partition}&from=offset&at=${each.committed_offset}`, each.committed_offset, { key: `at-${each.topic}-${each.partition}`, label: `${each.committed_offset}: the records from there` })) },
      { title: "End", number: true, cell: (each) => each.end_offset, by: (each) => each.end_offset },
      { title: "Lag", number: true, by: (each) => each.lag, cell: (each) => (each.lag === null ? h("span", { class: "quiet" }, "not known") : each.lag ? badge(count(each.lag), "warn") : "0") },
      { title: "Member", cell: (each) => each.member_id && h("span", { class: "mono" }, each.member_id), by: (each) => each.member_id },
    ], group.offsets, "Nothing is committed.", { key: (each) => `${each.topic}-${each.partition}`, name: "offsets-" }),
    topics.length > 0 && h("details", { "data-key": "topics" }, h("summary", {}, plural(topics.length, "topic")),
      h("ul", { class: "plain" }, topics.map((topic) => h("li", { "data-row": `topic-${topic}` },
        link(`#/topics/${encodeURIComponent(topic)}`, topic, { key: `topic-${topic}` }), " ",
        button("Forget its offsets", () => forget(topic), { needs: "operate", key: `forget-${topic}`, label: `Forget the offsets of ${topic}` }))))));
  }

  function members(group) {
    const classic = group.members.some((member) => member.protocol === "classic");
    return card("Members",
      grid(view, query, "Members", [
        { title: "Member", cell: (member) => h("span", { class: "mono" }, member.member_id), by: (member) => member.member_id },
        { title: "Client", cell: (member) => h("bdi", {}, member.client_id), by: (member) => member.client_id },
        { title: "Host", cell: (member) => h("bdi", {}, member.host), by: (member) => member.host },
        { title: "Instance", cell: (member) => member.instance_id, by: (member) => member.instance_id },
        { title: "Has", cell: (member) => placed(member.assignment) },
        { title: "Is to have", cell: (member) => placed(member.target_assignment) },
        // Members of the consumer protocol are nobody's to send away: the coordinator knows of no such request.
        classic && { title: "", cell: (member) => member.protocol === "classic" && button("Remove", () => away(member), { needs: "operate", key: `remove-${member.member_id}`, label: `Remove ${member.member_id}` }) },
      ].filter(Boolean), group.members, "Nobody is in the group.", { key: (member) => member.member_id, name: "members-" }),
      classic && group.members.length > 1 && h("div", { class: "actions" }, button("Remove all …", () => allAway(group), { kind: "danger", needs: "operate", key: "remove-all" })));
  }

  function reason() {
    return field("Reason", h("input", { name: "reason", maxlength: 255, autocomplete: "off" }), "for the coordinator's log");
  }

  function away(member) {
    const name = member.instance_id ?? member.client_id;
    ask({
      title: ["Remove ", h("bdi", {}, name)],
      content: [
        h("p", {}, "Its partitions go to the other members, and what it read and did not commit is read again. A consumer that is still running joins again by itself."),
        h("p", { class: "mono" }, member.member_id),
        reason(),
      ],
      action: "Remove", danger: true,
      async submit(data) {
        await remove(url(["v1", "groups", id, "members", member.member_id], { reason: data.get("reason") }));
        note(`${name} is removed.`);
        view.look();
      },
    });
  }

  function allAway(group) {
    ask({
      title: ["Remove all members of ", h("bdi", {}, id)],
      content: [h("p", {}, `${plural(group.members.length, "member")} leave, and those that are still running join again by themselves.`), reason()],
      action: "Remove all", danger: true,
      async submit(data) {
        const gone = await remove(url(["v1", "groups", id, "members"], { all: "true", reason: data.get("reason") }));
        const failed = gone.filter((each) => each.error);
        view.look();
        if (failed.length) throw new Error(failed.map((each) => `${each.instance_id ?? each.member_id}: ${each.error}`).join("; "));
        note(`${plural(gone.length, "member")} removed.`);
      },
    });
  }

  function forget(topic) {
    ask({
      title: ["Forget where ", h("bdi", {}, id), " is in ", h("bdi", {}, topic)],
      content: h("p", {}, "Who reads it in this group again begins where auto.offset.reset says. While a member is subscribed to the topic this is refused."),
      action: "Forget", danger: true,
      async submit() {
        const gone = await remove(path("offsets", topic));
        const failed = gone.filter((each) => each.error);
        view.look();
        if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.error}`).join("; "));
        note(`The offsets of ${topic} are forgotten.`);
      },
    });
  }

  function drop() {
    ask({
      title: ["Delete ", h("bdi", {}, id)],
      content: h("p", {}, "Its offsets are forgotten. A group with members is refused."),
      action: "Delete", danger: true,
      async submit() {
        await remove(path());
        note(`${id} is deleted.`);
        location.hash = "#/groups";
      },
    });
  }
  return view;
}

function summary(group) {
  const known = group.offsets.filter((each) => each.lag !== null);
  const unknown = group.offsets.filter((each) => each.lag === null && each.committed_offset !== null).length;
  const lag = known.reduce((sum, each) => sum + each.lag, 0);
  return figures(
    figure("State", group.state), figure("Kind", group.type), figure("Members", count(group.members.length)),
    unknown ? figure("Lag", [count(lag), h("small", {}, ` and what ${plural(unknown, "partition")} ${unknown === 1 ? "does" : "do"} not tell`)], "warn") : figure("Lag", count(lag), lag ? "warn" : ""),
    figure("Coordinator", link(`#/brokers/${group.coordinator}`, `broker ${group.coordinator}`, { key: "coordinator" }), "small"),
    figure("Assignor", group.protocol || "–", "small"));
}

function placed(assignment) {
  return Object.entries(assignment ?? {}).map(([topic, partitions]) => `${topic}: ${partitions.join(", ")}`).join("; ") || "–";
}
