"""Script of the page: a cross hair with the state at a time, selection of fault kinds, filters.

The page is whole without it. Text goes into the page as text only.
"""

from typing import Final

SCRIPT: Final = """
"use strict";
(function () {
  const series = JSON.parse(document.getElementById("series").textContent);
  const timeline = document.getElementById("timeline");
  const cross = timeline.querySelector(".cross");
  const tip = document.getElementById("tip");
  const ms = (value) => value === null ? "-" : value >= 1000 ? (value / 1000).toPrecision(3) + " s"
    : value.toPrecision(3) + " ms";

  function told(share, target) {
    const t = series.begin + share * series.duration;
    const place = Math.min(series.acks.length - 1, Math.floor(share * series.acks.length));
    const lines = [t.toFixed(3) + " s", Math.round(series.acks[place] / series.width) + " acknowledged/s, p50 "
      + ms(series.p50[place]) + ", p99 " + ms(series.p99[place])];
    if (target && target.dataset && target.dataset.tip) lines.push(target.dataset.tip);
    return lines.join("\\n");
  }
  function move(event) {
    const plot = timeline.querySelector(".plot").getBoundingClientRect();
    const share = (event.clientX - plot.left) / plot.width;
    const out = share < 0 || share > 1;
    cross.hidden = tip.hidden = out;
    if (out) return;
    cross.style.left = event.clientX - timeline.getBoundingClientRect().left - timeline.clientLeft + "px";
    tip.textContent = told(share, event.target);
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - 16 - box.width : event.clientX + 16;
    const top = event.clientY + 18 + box.height > innerHeight ? event.clientY - 12 - box.height : event.clientY + 18;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  }
  timeline.addEventListener("pointermove", move);
  timeline.addEventListener("pointerdown", move);
  timeline.addEventListener("pointerleave", () => { cross.hidden = tip.hidden = true; });

  const chosen = new Set();
  for (const chip of document.querySelectorAll("[data-filter]")) {
    chip.addEventListener("click", () => {
      const kind = chip.dataset.filter;
      if (!chosen.delete(kind)) chosen.add(kind);
      chip.setAttribute("aria-pressed", String(chosen.has(kind)));
      timeline.classList.toggle("filtering", chosen.size > 0);
      for (const each of document.querySelectorAll("[data-kind]")) {
        each.classList.toggle("chosen", chosen.has(each.dataset.kind));
        if (each.tagName === "TR") each.classList.toggle("hidden", chosen.size > 0 && !chosen.has(each.dataset.kind));
      }
    });
  }
  for (const box of document.querySelectorAll("[data-search]")) {
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
      for (const each of document.querySelectorAll("#" + box.dataset.search + " .finding")) {
        const text = each.textContent.toLowerCase();
        each.classList.toggle("hidden", !words.every((word) => text.includes(word)));
      }
    });
  }
})();
"""
