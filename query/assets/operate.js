// Keeps a page up to date: texts, classes, lines and values of its elements, which a stream names by their ids. Nothing becomes markup.
"use strict";
(() => {
  const path = document.body.dataset.live, status = document.getElementById("live"), pause = document.getElementById("pause");
  if (!path || !status || !pause || !window.EventSource) return;
  let source = null, paused = false, lost = 0;
  const each = (changes, change) => {
    for (const [id, value] of Object.entries(changes || {})) {
      const element = document.getElementById(id);
      if (element) change(element, value);
    }
  };
  const say = (text) => { if (status.textContent !== text) status.textContent = text; };
  const close = () => { if (source) source.close(); source = null; };
  const open = () => {
    if (source || paused || document.hidden) return;
    source = new EventSource(path);
    source.onmessage = (message) => {
      const { t, c, p, v } = JSON.parse(message.data);
      each(t, (element, value) => { element.textContent = value; });
      each(c, (element, value) => { element.setAttribute("class", value); });
      each(p, (element, value) => { element.setAttribute("points", value); });
      each(v, (element, value) => { element.value = value; });
      clearTimeout(lost);
      lost = 0;
      say("");
    };
    source.onerror = () => {
      // It was refused, and the browser does not try again by itself.
      if (source && source.readyState === EventSource.CLOSED) { close(); setTimeout(open, 30000); }
      // A stream ends after some minutes, and the browser opens another one.
      const at = new Date().toISOString().slice(11, 16);
      lost = lost || setTimeout(say, 5000, "Connection lost at " + at + ". Numbers are old.");
    };
  };
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    if (paused) close(); else open();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  pause.hidden = false;
  open();
})();
