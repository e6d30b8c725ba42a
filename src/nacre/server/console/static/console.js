// Small helpers over pages that work without them: search as you type, preview, theme, keys, live parts.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const SEARCH_MS = 180;
  const PREVIEW_MS = 400;

  const later = (work, ms) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(work, ms); };
  };

  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

  // Theme: set at once, and remembered by the form's own request.
  const theme = document.getElementById("theme");
  theme?.addEventListener("change", () => {
    root.dataset.theme = theme.value;
    const body = new URLSearchParams(new FormData(theme.form));
    fetch(theme.form.action, { method: "POST", body, redirect: "manual" });
  });

  // Another space: the same page, except those about one thing.
  const space = document.getElementById("space");
  space?.addEventListener("change", () => {
    const here = new URL(location.href);
    const path = /\/(memory|edit|commit|sessions)\//.test(here.pathname) ? "/console/memories" : here.pathname;
    location.href = `${path}?space=${encodeURIComponent(space.value)}`;
  });

  // Search as you type.
  for (const form of document.querySelectorAll("form[data-search]")) {
    const into = document.querySelector(form.dataset.search);
    let count = 0;
    const run = async () => {
      const mine = ++count;
      const query = new URLSearchParams(new FormData(form));
      for (const [name, value] of [...query]) if (!value) query.delete(name);
      const address = `${form.getAttribute("action").split("?")[0]}?${query}`;
      const answer = await fetch(address, { headers: { "X-Part": "1" } });
      if (!answer.ok || mine !== count) return;
      const text = await answer.text();
      if (mine !== count) return;
      into.replaceChildren(...parsed(text).body.childNodes);
      history.replaceState(null, "", address);
    };
    const soon = later(run, SEARCH_MS);
    form.addEventListener("input", soon);
    form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  }

  // Preview of an edit.
  for (const form of document.querySelectorAll("form[data-preview]")) {
    const into = document.querySelector("[data-preview-into]");
    const run = async () => {
      const body = new URLSearchParams(new FormData(form));
      const answer = await fetch(form.dataset.preview, { method: "POST", body, headers: { "X-Part": "1" } });
      if (answer.ok) into.replaceChildren(...parsed(await answer.text()).body.childNodes);
    };
    form.addEventListener("input", later(run, PREVIEW_MS));
  }

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  // Keys: those that a page names, outside of fields.
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("[tabindex='0']") && event.key.startsWith("Arrow")) return;
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target) return;
    event.preventDefault();
    target.tagName === "INPUT" ? target.focus() : target.click();
  });

  // Live parts: the server names what has changed; the page asks for itself again.
  const topics = (document.body.dataset.live || "").trim().split(/\s+/).filter(Boolean);
  const region = document.querySelector("[data-region]");
  if (topics.length && region && window.EventSource) {
    const dot = document.querySelector("[data-livedot]");
    const source = new EventSource(document.body.dataset.events);
    const renew = later(async () => {
      if (region.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const fresh = parsed(await answer.text()).querySelector("[data-region]");
      if (!fresh) return;
      const focused = document.activeElement?.getAttribute("href");
      region.replaceChildren(...fresh.childNodes);
      if (focused) region.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    }, 120);
    source.addEventListener("ready", () => { dot.hidden = false; });
    source.addEventListener("changed", (event) => { if (topics.includes(event.data)) renew(); });
    source.addEventListener("error", () => { dot.hidden = true; });
    addEventListener("pagehide", () => source.close());
  }
})();
