// One group with its members and offsets, updated live, and its actions.

import { get, remove, url } from "./api.js";
import { ask, badge, button, card, field, figure, figures, h, link, note } from "./dom.js";
import { star } from "./favourites.js";
import { count, plural } from "./format.js";
import { grid } from "./grid.js";
import { reset } from "./group-reset.js";
import { lagShown } from "./groups.js";
import { keptUp } from "./kept-up.js";

export function open({ group: id }, query) {
  const path = (...more) => url(["v1", "groups", id, ...more]);
  let known = null;
  const view = {
    title: id,
    actions: [
      star("group", id),
      button("Reset offsets", () => reset(id, known, view), { kind: "", needs: "operate", key: "reset" }),
      button("Delete group", () => drop(), { kind: "danger", needs: "admin", key: "drop" }),
    ],
    load: async (signal) => (known = await get(path(), { signal })),
    draw: (group) => {
      known = group;
      return [summary(group), topics(group), offsets(group), members(group)];
    },
    cares: (event) => event.kind.startsWith("broker_") || event.kind === "reconnected",
    close: () => live.end(),
  };
  const live = keptUp(() => view, "group");
  live.follow(url(["v1", "live", "groups", id]));

  /** The lag by topic, with actions on a topic's offsets. */
  function topics(group) {
    const rows = [...Map.groupBy(group.offsets, (each) => each.topic)].map(([topic, all]) => {
      const lags = all.map((each) => each.lag).filter((lag) => lag !== null);
      return { topic, partitions: all.length, lag: lags.reduce((sum, lag) => sum + lag, 0), most: Math.max(0, ...lags), unknown: all.filter((each) => each.lag === null && each.committed_offset !== null).length, committed: all.some((each) => each.committed_offset !== null) };
    });
    return rows.length > 0 && card("Topics", grid(view, query, "Topics", [
      { title: "Topic", by: (each) => each.topic, cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}`, each.topic, { key: `topic-${each.topic}` }) },
      { title: "Partitions", number: true, by: (each) => each.partitions, cell: (each) => count(each.partitions) },
      { title: "Lag", number: true, by: (each) => each.lag, cell: (each) => lagShown(each.lag, each.unknown) },
      { title: "Largest lag", number: true, by: (each) => each.most, cell: (each) => count(each.most) },
      { title: "", cell: (each) => each.committed && button("Delete offsets …", () => forget(each.topic), { needs: "operate", key: `forget-${each.topic}`, label: `Delete the offsets of ${each.topic}` }) },
    ], rows, "", { key: (each) => each.topic, name: "topics-" }));
  }

  function offsets(group) {
    return card("Partitions", grid(view, query, "Partitions", [
      { title: "Partition", by: (each) => `${each.topic}-${each.partition}`,
        cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`, { key: `place-${each.topic}-${each.partition}` }) },
      { title: "Committed offset", number: true, by: (each) => each.committed_offset, cell: (each) => (each.committed_offset === null ? "–"
        : link(`#/topics/${encodeURIComponent(each.topic)}/messages?partitions=${each.partition}&from=offset&at=${each.committed_offset}`, each.committed_offset, { key: `at-${each.topic}-${each.partition}`, label: `${each.committed_offset}: the records from there` })) },
      { title: "End offset", number: true, cell: (each) => each.end_offset, by: (each) => each.end_offset },
      { title: "Lag", number: true, by: (each) => each.lag, cell: (each) => (each.lag === null ? h("span", { class: "quiet" }, "unknown") : each.lag ? badge(count(each.lag), "warn") : "0") },
      { title: "Member", cell: (each) => each.member_id && h("span", { class: "mono" }, each.member_id), by: (each) => each.member_id },
    ], group.offsets, "No committed offsets.", { key: (each) => `${each.topic}-${each.partition}`, name: "offsets-" }));
  }

  function members(group) {
    const moving = group.members.some((member) => member.target_assignment !== null);
    return card("Members",
      grid(view, query, "Members", [
        { title: "Member", cell: (member) => h("span", { class: "mono" }, member.member_id), by: (member) => member.member_id },
        { title: "Client", cell: (member) => h("bdi", {}, member.client_id), by: (member) => member.client_id },
        { title: "Host", cell: (member) => h("bdi", {}, member.host), by: (member) => member.host },
        { title: "Instance", cell: (member) => member.instance_id, by: (member) => member.instance_id },
        { title: "Assignment", cell: (member) => placed(member.assignment) },
        moving && { title: "Target assignment", cell: (member) => placed(member.target_assignment) },
        { title: "", cell: (member) => button("Remove", () => away(member), { needs: "operate", key: `remove-${member.member_id}`, label: `Remove ${member.member_id}` }) },
      ].filter(Boolean), group.members, "No members.", { key: (member) => member.member_id, name: "members-" }),
      group.members.length > 1 && h("div", { class: "actions" }, button("Remove all …", () => allAway(group), { kind: "danger", needs: "operate", key: "remove-all" })));
  }

  function reason() {
    return field("Reason", h("input", { name: "reason", maxlength: 255, autocomplete: "off" }), "for the coordinator's log");
  }

  function away(member) {
    const name = member.instance_id ?? member.client_id;
    ask({
      title: ["Remove ", h("bdi", {}, name)],
      content: [
        h("p", {}, "Its partitions move to other members, which read records again that it has not committed. A running consumer rejoins automatically."),
        h("p", { class: "mono" }, member.member_id),
        reason(),
      ],
      action: "Remove", danger: true,
      async submit(data) {
        await remove(url(["v1", "groups", id, "members", member.member_id], { reason: data.get("reason") }));
        note(`Member ${name} removed.`);
        view.look();
      },
    });
  }

  function allAway(group) {
    ask({
      title: ["Remove all members of ", h("bdi", {}, id)],
      content: [h("p", {}, `${plural(group.members.length, "member")} will be removed. Running consumers rejoin automatically.`), reason()],
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
      title: ["Delete the offsets of ", h("bdi", {}, id), " for ", h("bdi", {}, topic)],
      content: h("p", {}, "Consumers of this group then start at the position of auto.offset.reset. Rejected while a member is subscribed to the topic."),
      action: "Delete", danger: true,
      async submit() {
        const gone = await remove(path("offsets", topic));
        const failed = gone.filter((each) => each.error);
        view.look();
        if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.error}`).join("; "));
        note(`Offsets of ${topic} deleted.`);
      },
    });
  }

  function drop() {
    ask({
      title: ["Delete ", h("bdi", {}, id)],
      content: h("p", {}, "Deletes the group with its committed offsets. Rejected while the group has members."),
      action: "Delete", danger: true,
      async submit() {
        await remove(path());
        note(`Group ${id} deleted.`);
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
    figure("State", group.state), figure("Type", group.type), figure("Members", count(group.members.length)),
    unknown ? figure("Lag", [count(lag), h("small", {}, `, unknown in ${plural(unknown, "partition")}`)], "warn") : figure("Lag", count(lag), lag ? "warn" : ""),
    figure("Coordinator", link(`#/brokers/${group.coordinator}`, `broker ${group.coordinator}`, { key: "coordinator" }), "small"),
    figure("Assignor", group.protocol || "–", "small"));
}

function placed(assignment) {
  return Object.entries(assignment ?? {}).map(([topic, partitions]) => `${topic}: ${partitions.join(", ")}`).join("; ") || "–";
}
