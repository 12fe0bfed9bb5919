"use strict";
// Pages work without this. With it, the list of calls refreshes itself, and a form is sent once.
(() => {
  const zone = document.querySelector("[data-timezone]");
  if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

  document.querySelectorAll("[data-print]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    window.setTimeout(() => form.querySelectorAll("button").forEach((button) => { button.disabled = true; }), 0);
  });
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    document.querySelectorAll("form").forEach((form) => {
      delete form.dataset.sent;
      form.querySelectorAll("button:not([data-default])").forEach((button) => { button.disabled = false; });
    });
  });

  const opened = window.location.hash.slice(1);
  const details = opened && document.getElementById(opened);
  if (details && details.tagName === "DETAILS") details.open = true;

  const list = document.getElementById("calls");
  if (!list || !window.EventSource) return;
  const fresh = document.getElementById("fresh");
  const touched = new Set();
  const callOf = (element) => element.closest && element.closest("[data-call]");
  list.addEventListener("input", (event) => {
    const call = callOf(event.target);
    if (call) touched.add(call.dataset.call);
  });
  const busy = (call) => touched.has(call.dataset.call) || call.contains(document.activeElement);

  const refresh = async () => {
    const answer = await fetch("/today/list", { headers: { Accept: "text/html" }, redirect: "manual" });
    if (answer.status === 401 || answer.type === "opaqueredirect") throw new Error("ended");
    if (!answer.ok) throw new Error("lost");
    const made = document.createElement("div");
    made.innerHTML = await answer.text();
    const focused = document.activeElement;
    const restore = focused && list.contains(focused) ? focused : null;
    const caret = restore && "selectionStart" in restore ? [restore.selectionStart, restore.selectionEnd] : null;
    // What is being typed in stays as it is, whatever has become of the others.
    list.querySelectorAll(".calls > [data-call]").forEach((call) => {
      if (!busy(call)) return;
      const same = made.querySelector(`.calls > [data-call="${call.dataset.call}"]`);
      if (same && !same.classList.contains("taken")) {
        same.replaceWith(call);
        return;
      }
      if (!call.querySelector(".gone")) {
        const gone = document.createElement("p");
        gone.className = "gone";
        gone.setAttribute("role", "alert");
        gone.textContent = list.dataset.gone;
        call.prepend(gone);
      }
      if (same) same.replaceWith(call);
      else made.querySelector(".calls").prepend(call);
    });
    list.replaceChildren(...made.childNodes);
    if (restore && restore.isConnected) {
      restore.focus({ preventScroll: true });
      if (caret && caret[0] !== null) restore.setSelectionRange(caret[0], caret[1]);
    }
    const count = document.getElementById("waiting-count");
    if (count) count.textContent = String(list.querySelectorAll(".calls > [data-call]").length);
  };

  let known = list.dataset.version;
  let working = false;
  const look = async (version) => {
    if (version === known && version !== null) return;
    if (working) return;
    working = true;
    try {
      await refresh();
      known = version === null ? known : version;
      fresh.textContent = fresh.dataset.ok;
    } catch (error) {
      fresh.textContent = error.message === "ended" ? fresh.dataset.ended : fresh.dataset.lost;
    }
    working = false;
  };
  const listen = () => {
    const source = new EventSource("/today/changes");
    source.addEventListener("version", (event) => look(event.data));
    source.addEventListener("open", () => { fresh.textContent = fresh.dataset.ok; });
    source.addEventListener("error", () => {
      fresh.textContent = fresh.dataset.lost;
      if (source.readyState !== EventSource.CLOSED) return;
      look(null);
      window.setTimeout(listen, 10000);
    });
  };
  listen();
  window.setInterval(() => look(null), 60000);
})();
