// What the pages do in the browser: keep choices in the address, so that a reload or a link shows the same, and send
// clicks on tables to Python. The functions after the first one run before an event of Gradio and return its inputs.

// Puts choices in the address; an empty one is removed. The tab comes first: only that survives a login.
window.kbbench = choices => {
  const address = new URL(window.location);
  for (const [key, value] of Object.entries(choices)) {
    if (value === "" || value === null || value === undefined) address.searchParams.delete(key);
    else address.searchParams.set(key, value);
  }
  const tab = address.searchParams.get("tab");
  address.searchParams.delete("tab");
  if (tab) address.search = new URLSearchParams([["tab", tab], ...address.searchParams]);
  window.history.replaceState(null, "", address);
};
kbbench.place = place => kbbench({place});
kbbench.again = (...values) => {
  const all = "search origin size type sort sheet columns x y row compare".split(" ");
  kbbench(Object.fromEntries(all.map(each => [each, ""])));
  return values;
};
// A changed filter begins at page 1; a page that the address requests at first stays.
kbbench.filters = (place, search, origin, sort, columns, page, size, type) => {
  const [o, s, t] = [origin, size, type].map(each => each === "all" ? "" : each);
  const now = new URL(window.location).searchParams, wanted = {search, origin: o, size: s, type: t};
  if (Object.entries(wanted).some(([key, value]) => (value || "") !== (now.get(key) || ""))) {
    kbbench({...wanted, sheet: ""});
    page = 1;
  }
  return [place, search, origin, sort, columns, page, size, type];
};
kbbench.columns = (...values) => {
  kbbench({columns: values[4].join(",")});
  return values;
};
kbbench.axes = (element, trigger) => element.addEventListener("change", () => {
  const [x, y] = ["x", "y"].map(axis => element.querySelector(`[name=${axis}]`).value);
  kbbench({x, y});
  trigger("select", {index: 0, value: [x, y]});
});
kbbench.row = (place, row) => {
  kbbench({row});
  return [place, row];
};
kbbench.compared = (place, rows) => {
  kbbench({compare: rows.join(",")});
  return [place, rows];
};
kbbench.tab = () => setTimeout(() => {
  const bar = document.querySelector(".tab-wrapper");  // on a narrow page the chosen tab may be in its menu
  const tab = bar?.querySelector("[role=tab][aria-selected=true], .overflow-dropdown .selected")?.textContent;
  const name = tab?.trim().toLowerCase(), names = {leaderboard: "board", system: "row"};  // addresses of before stay
  if (name) kbbench({tab: names[name] || name});
}, 50);
// In the address a page of the table is a sheet: Gradio has another use for the word page.
kbbench.clicks = (element, trigger) => {
  const send = (what, value) => trigger("select", {index: 0, value: [what, value]});
  const ticked = () => [...element.querySelectorAll("[name=compare]:checked")].map(box => box.value);
  element.addEventListener("click", event => {
    const sort = event.target.closest("[data-sort]"), page = event.target.closest("[data-page]");
    const row = event.target.closest("[data-row]");
    if (event.target.closest("[name=compare]")) return;
    if (sort) { kbbench({sort: sort.dataset.sort, sheet: ""}); send("sort", sort.dataset.sort); }
    else if (page) { kbbench({sheet: page.dataset.page}); send("page", page.dataset.page); }
    else if (row && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      send("row", row.dataset.row);
    }
  });
  element.addEventListener("change", () => {
    const button = element.querySelector("#kb-compare button"), n = ticked().length;
    if (!button) return;
    button.disabled = n === 1 || n > 4;
    button.textContent = n ? (n > 4 ? "At most 4 systems" : `Compare ${n} ticked`) : "Compare ticked systems";
  });
  element.addEventListener("submit", event => { event.preventDefault(); send("compare", ticked()); });
};
