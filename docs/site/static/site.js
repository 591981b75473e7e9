// Views follow the page's theme: light, dark, or that of the machine.
"use strict";

// Sphinx's search splits "pl.when" into "pl", which is part of many words, and "when".
var splitQuery = (query) => {
  const words = query.split(/[^\p{Letter}\p{Number}_]+/u).filter(Boolean);
  const long = words.filter((word) => word.length > 2);
  return long.length ? long : words;
};

(() => {
  const dark = () => {
    const theme = document.body.dataset.theme;
    return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  };
  const theme = () => (dark() ? "dark" : "light");

  // On the page of errors: a field for a message, which lists the entries that quote it.
  const findMessage = () => {
    const entries = [...document.querySelectorAll("section:not(#known-mistakes-of-each-kata) > section > h3")].map((heading) => {
      const quotes = [...heading.parentElement.querySelectorAll(":scope > p:first-of-type code")];
      const patterns = quotes.map((quote) => quote.textContent.split("…").map((part) =>
        part.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*"));
      return { heading, patterns: patterns.map((pattern) => new RegExp(pattern, "i")) };
    });
    const label = Object.assign(document.createElement("label"), { className: "find", textContent: "Find a message: " });
    const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "padding of x_ref was used" });
    const found = document.createElement("ul");
    label.append(field);
    document.querySelector("h1").after(label, found);
    field.addEventListener("input", () => {
      const words = field.value.trim();
      const holds = ({ heading, patterns }) => words.length > 2 && (patterns.some((pattern) => pattern.test(words)) ||
        heading.parentElement.textContent.toLowerCase().includes(words.toLowerCase()));
      found.replaceChildren(...entries.filter(holds).slice(0, 8).map(({ heading }) => {
        const link = Object.assign(document.createElement("a"), { href: `#${heading.parentElement.id}` });
        link.textContent = heading.firstChild.textContent;
        const item = document.createElement("li");
        item.append(link);
        return item;
      }));
    });
  };

  const start = () => {
    const frames = document.querySelectorAll("iframe[data-view]");
    for (const frame of frames) {
      const play = "play" in frame.dataset && !matchMedia("(prefers-reduced-motion: reduce)").matches;
      frame.src = `${frame.dataset.view}#theme=${theme()}${play ? "&play" : ""}`;
    }
    const changed = () => frames.forEach((frame) => frame.contentWindow.postMessage({ theme: theme() }, "*"));
    new MutationObserver(changed).observe(document.body, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
    // The theme calls captions of the navigation headings, and leaves out of which level.
    for (const caption of document.querySelectorAll("[role=heading]:not([aria-level])")) caption.ariaLevel = "2";
    // The report on the front page has a link.
    for (const code of document.querySelectorAll(".hero ~ * pre")) {
      const [before, name, after] = code.textContent.split(/https:\S*\/(errors\.html#\S+)/);
      if (!name) continue;
      code.replaceChildren(before, Object.assign(document.createElement("a"), { href: name, textContent: name }), after);
    }
    if (document.getElementById("errors-explained")) findMessage();
    // Code that scrolls can be scrolled by keyboard, too.
    for (const box of document.querySelectorAll(".highlight pre, .table-wrapper")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
