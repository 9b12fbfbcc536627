// Puts choices in the page's address; an empty one leaves it. The tab comes first: only that survives a login.
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
