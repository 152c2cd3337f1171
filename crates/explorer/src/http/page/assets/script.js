// Makes the page livelier: keys, and rows that change while one looks. Everything works without it.
"use strict";

const rows = () => [...document.querySelectorAll("#results a.row")];

function move(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(document.activeElement);
  all[Math.min(Math.max(at + step, 0), all.length - 1)].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input[type=search], input[type=password], textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const help = document.getElementById("help");
  const search = document.getElementById("q");
  if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
  if (event.key === "[") document.querySelector("a[rel=prev]")?.click();
  if (event.key === "]") document.querySelector("a[rel=next]")?.click();
  if (event.key === "x") {
    const box = document.activeElement.closest("tr")?.querySelector("input[type=checkbox]");
    if (box) { box.checked = !box.checked; box.dispatchEvent(new Event("change", { bubbles: true })); }
  }
  if (event.key === "?" && help) { help.open = !help.open; if (help.open) help.querySelector("summary").focus(); }
});

// Fetches the page as it is now and puts its rows in place of the old ones. Whoever is selecting is not disturbed: it waits
// until nothing is selected any more. Rows that are gone go at once.
let waiting = null;
let pending = false;
const selecting = () => document.querySelector("#results input[type=checkbox]:checked") !== null;
const soon = () => { waiting ??= setTimeout(refresh, 300); };

async function refresh() {
  waiting = null;
  pending = selecting();
  const results = document.getElementById("results");
  if (!results || pending) return;
  const focused = document.activeElement?.getAttribute?.("href");
  results.classList.add("refreshing");
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("results");
    // Something may have been selected meanwhile.
    pending = selecting();
    if (fresh && !pending) results.replaceWith(fresh);
    if (focused && !pending) rows().find((row) => row.getAttribute("href") === focused)?.focus();
  } catch { /* the next event tries again */ }
  document.getElementById("results")?.classList.remove("refreshing");
}

function gone(event) {
  const { id } = JSON.parse(event.data);
  const boxes = [...document.querySelectorAll("#results input[type=checkbox]")];
  boxes.find((box) => box.value === id)?.closest("tr")?.remove();
  soon();
}

document.addEventListener("change", () => { if (pending && !selecting()) refresh(); });

const results = document.getElementById("results");
if (results) {
  const query = results.dataset.query ?? "";
  const events = new EventSource("/explore/changes?query=" + encodeURIComponent(query));
  // What changed between the page and the stream is told by nobody: "ready" says to look again.
  for (const kind of ["ready", "changed", "reset"]) events.addEventListener(kind, soon);
  events.addEventListener("gone", gone);
  events.addEventListener("end", () => { events.close(); location.reload(); });
}
