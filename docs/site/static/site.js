// Views follow the page's theme: light, dark, or that of the machine.
"use strict";

(() => {
  const dark = () => {
    const theme = document.body.dataset.theme;
    return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  };
  const theme = () => (dark() ? "dark" : "light");

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
    // Code that scrolls can be scrolled by keyboard, too.
    for (const box of document.querySelectorAll(".highlight pre, .table-wrapper")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
