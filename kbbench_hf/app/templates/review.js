"use strict";
const $ = id => document.getElementById(id);
const fields = [...document.querySelectorAll("fieldset")];
let items = [], at = 0;

const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

// Rows become a table, on a narrow screen one list of cells each; triples and passages a numbered list.
const units = (item, all) => {
  const isRow = cells => item.header.length && cells.length === item.header.length;
  const parts = [], rows = all.filter(isRow), others = all.filter(cells => !isRow(cells));
  if (rows.length) {
    const table = element("table", undefined, {class: "rows"}), head = table.createTHead().insertRow();
    for (const name of item.header) head.append(element("th", name, {scope: "col"}));
    const body = table.createTBody();
    for (const cells of rows) {
      const row = body.insertRow();
      cells.forEach((cell, n) => row.append(element("td", cell, {"data-header": item.header[n]})));
    }
    const wide = element("div", undefined, {class: "wide", tabindex: 0, role: "region", "aria-label": "rows"});
    wide.append(table);
    parts.push(wide);
  }
  if (others.length) {
    const list = element("ol");
    for (const cells of others) list.append(element("li", cells.length === 2 ? cells.filter(Boolean).join(": ") : cells.join(" · ")));
    parts.push(list);
  }
  return parts.length ? parts : [element("p", "none")];
};

const say = (text, bad = false) => { $("status").textContent = text; $("status").className = bad ? "bad" : ""; };
const answered = field => field.querySelector("input:checked");
const now = () => fields.find(field => !answered(field));
const mark = () => fields.forEach(field => field.classList.toggle("now", field === now()));
const judged = () => items.filter(item => item.answers).length;

const show = () => {
  $("progress").max = items.length || 1;
  $("progress").value = judged();
  const item = items[at];
  $("instance").hidden = !item;
  $("place").textContent = item ? `Instance ${at + 1} of ${items.length}` :
    `All seen: ${judged()} of ${items.length} judged. Press b to go back; Ctrl-C in the terminal ends.`;
  if (item) {
    $("question").textContent = item.question;
    $("gold").replaceChildren(...item.gold.map(([answer, ...names]) => {
      const line = element("li", answer);
      if (names.length) line.append(element("small", ` also ${names.join(", ")}`));
      return line;
    }));
    $("needed").replaceChildren(...units(item, item.needed));
    $("noise").replaceChildren(...units(item, item.noise));
    $("facts").textContent = [...Object.entries(item.facts).map(([name, value]) => `${name}: ${value}`), item.id].join(" · ");
    for (const field of fields) for (const input of field.querySelectorAll("input"))
      input.checked = item.answers ? item.answers[field.dataset.name] === input.value : false;
    mark();
  }
  scrollTo(0, 0);
  $("place").focus({preventScroll: true});
};

const move = step => { at = Math.max(0, Math.min(items.length, at + step)); show(); };

const save = async () => {
  const missing = now();
  if (missing) { say(`Not yet: ${missing.querySelector("legend").textContent}`, true); return; }
  const item = items[at], answers = Object.fromEntries(fields.map(field => [field.dataset.name, answered(field).value]));
  try {
    const sent = await fetch("/judgements", {method: "POST", body: JSON.stringify({id: item.id, answers}),
      headers: {"Content-Type": "application/json", "X-Token": document.querySelector("meta[name=token]").content}});
    if (!sent.ok) throw new Error(await sent.text());
  } catch (error) {
    say(`Not saved: ${error.message}. Is the command still running? Press Enter to try again.`, true);
    return;
  }
  item.answers = answers;
  at += 1;
  show();
  say(`Saved. ${items.length - judged()} left.`);
};

addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  const key = event.key.toLowerCase();
  if (key === "b") { move(-1); say(""); return; }
  if (key === "s" && items[at]) { move(1); say("Skipped."); return; }
  if (key === "enter" && items[at] && event.target.tagName !== "BUTTON") { event.preventDefault(); save(); return; }
  if (!items[at]) return;
  const field = event.target.closest?.("fieldset") ?? now();
  const input = field?.querySelector(`input[data-key="${CSS.escape(key)}"]`);
  if (!input) return;
  event.preventDefault();
  input.checked = true;
  document.activeElement.blur?.();
  mark();
  say(now() ? "" : "Press Enter to save.");
  (now() ?? $("save")).scrollIntoView({block: "nearest"});
});
addEventListener("change", mark);
$("form").addEventListener("submit", event => { event.preventDefault(); save(); });
$("back").addEventListener("click", () => move(-1));
$("skip").addEventListener("click", () => move(1));

fetch("/items").then(got => got.json()).then(got => {
  items = got;
  const first = items.findIndex(item => !item.answers);
  at = first < 0 ? items.length : first;
  show();
}).catch(error => say(`Nothing could be loaded: ${error.message}. Load the page again.`, true));
