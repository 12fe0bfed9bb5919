"use strict";
// Pages work without this. With it, the list of calls refreshes itself, and a form is sent once.
(() => {
  const zone = document.querySelector("[data-timezone]");
  if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

  document.querySelectorAll("[data-print]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  });

  let signedIn = null;
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    if (signedIn && form.method === "post" && form.closest("main") && !form.dataset.checked) {
      // Where the session has ended the form stays as it is: what was typed would be lost on the way to sign in.
      const button = event.submitter;
      event.preventDefault();
      const goes = await signedIn();
      delete form.dataset.sent;
      if (!goes) return;
      form.dataset.checked = "yes";
      form.requestSubmit(button);
      delete form.dataset.checked;
      return;
    }
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

  // A session lasts while a person does something here. Once it has ended, nothing can be sent, and nothing is lost.
  const ended = document.getElementById("ended");
  if (!ended) return;
  const lock = (locked) => {
    if (ended.hidden === !locked) return;
    ended.hidden = !locked;
    document.querySelectorAll("main button, .me button").forEach((button) => {
      if (locked && !button.disabled) { button.disabled = true; button.dataset.locked = "yes"; }
      if (!locked && button.dataset.locked) { button.disabled = false; delete button.dataset.locked; }
    });
  };
  const renew = (token) => {
    ended.dataset.form = token;
    document.querySelectorAll('input[name="form"]').forEach((input) => { input.value = token; });
  };
  const ask = (path, options) => fetch(path, { redirect: "manual", ...options });
  const gone = (answer) => answer.status === 401 || answer.status === 403 || answer.type === "opaqueredirect";
  const check = async () => {
    try {
      const answer = await ask("/session", { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(5000) });
      if (gone(answer)) { lock(true); return false; }
      if (!answer.ok) return true;
      renew((await answer.json()).form);
      lock(false);
    } catch { /* the network is away; the list says so */ }
    return true;
  };
  signedIn = check;
  let active = Date.now();
  let kept = Date.now();
  const acted = () => { active = Date.now(); };
  ["pointerdown", "keydown", "input", "wheel", "touchstart"].forEach((name) => document.addEventListener(name, acted, { passive: true }));
  const keep = async () => {
    if (active > kept) {
      kept = Date.now();
      const body = new URLSearchParams({ form: ended.dataset.form });
      try { await ask("/session", { method: "POST", body, headers: { Accept: "application/json" } }); } catch { return; }
    }
    await check();
  };
  window.setInterval(keep, 30000);
  window.addEventListener("focus", check);

  // How much waits: in the title, in the icon, and told to whoever looks at something else.
  const count = document.getElementById("waiting-count");
  if (!count || !window.EventSource) return;
  const title = document.title;
  const icon = document.querySelector('link[rel="icon"]');
  const plain = icon.href;
  let [, latestCall, latestUrgent] = count.dataset.waiting.split(" ").map(Number);
  const alerting = document.querySelector("[data-alerting]");
  const sound = document.querySelector("[data-sound]");
  let audio = null;
  const beep = () => {
    if (localStorage.getItem("sound") !== "on") return;
    audio = audio || new AudioContext();
    const tone = audio.createOscillator();
    const gain = audio.createGain();
    tone.frequency.value = 660;
    gain.gain.setValueAtTime(0.15, audio.currentTime);
    gain.gain.exponentialRampToValueAtTime(0.001, audio.currentTime + 0.6);
    tone.connect(gain).connect(audio.destination);
    tone.start();
    tone.stop(audio.currentTime + 0.6);
  };
  const notify = (text, tag, number) => {
    beep();
    if (!window.Notification || Notification.permission !== "granted") return;
    if (!document.hidden && document.hasFocus()) return;
    const notice = new Notification(text, { tag, renotify: true, icon: `/icon/${Math.min(number, 10)}` });
    notice.onclick = () => { window.focus(); notice.close(); };
  };
  const show = (waiting) => {
    const [number, call, urgent] = waiting.split(" ").map(Number);
    count.textContent = String(number);
    count.hidden = number === 0;
    document.title = number ? `(${number}) ${title}` : title;
    icon.href = number ? `/icon/${Math.min(number, 10)}` : plain;
    if (urgent > latestUrgent) notify(count.dataset.urgent, "urgent", number);
    else if (call > latestCall) notify(`${count.dataset.notice}: ${number}`, "calls", number);
    latestCall = Math.max(latestCall, call);
    latestUrgent = Math.max(latestUrgent, urgent);
  };
  show(count.dataset.waiting);
  if (alerting) {
    const button = alerting.querySelector("[data-notify]");
    const said = () => {
      const permission = window.Notification ? Notification.permission : "denied";
      button.disabled = permission !== "default";
      if (permission !== "default") button.textContent = permission === "granted" ? button.dataset.on : button.dataset.off;
    };
    said();
    button.addEventListener("click", async () => { await Notification.requestPermission(); said(); });
    sound.checked = localStorage.getItem("sound") === "on";
    sound.addEventListener("change", () => {
      localStorage.setItem("sound", sound.checked ? "on" : "off");
      beep();
    });
    alerting.hidden = false;
  }

  const list = document.getElementById("calls");
  const fresh = document.getElementById("fresh");
  const touched = new Set([...document.querySelectorAll("[data-kept]")].map((call) => call.dataset.call));
  const callOf = (element) => element.closest && element.closest("[data-call]");
  if (list) list.addEventListener("input", (event) => {
    const call = callOf(event.target);
    if (call) touched.add(call.dataset.call);
  });
  const busy = (call) => touched.has(call.dataset.call) || call.contains(document.activeElement);

  const refresh = async () => {
    const answer = await ask("/today/list", { headers: { Accept: "text/html" } });
    if (gone(answer)) throw new Error("ended");
    if (!answer.ok) throw new Error("lost");
    const made = document.createElement("div");
    made.innerHTML = await answer.text();
    const focused = document.activeElement;
    const restore = focused && list.contains(focused) ? focused : null;
    const caret = restore && "selectionStart" in restore ? [restore.selectionStart, restore.selectionEnd] : null;
    // What is being typed in stays as it is, whatever has become of the others.
    list.querySelectorAll("[data-escalation]").forEach((entry) => {
      const same = made.querySelector(`[data-escalation="${entry.dataset.escalation}"]`);
      if (same && (entry.contains(document.activeElement) || entry.querySelector("input[name=note]").value)) same.replaceWith(entry);
    });
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
    const token = made.querySelector('[data-call] input[name="form"]');
    list.replaceChildren(...made.childNodes);
    if (ended.hidden) renew(token && !touched.size ? token.value : ended.dataset.form);
    else await check();
    if (restore && restore.isConnected) {
      restore.focus({ preventScroll: true });
      if (caret && caret[0] !== null) restore.setSelectionRange(caret[0], caret[1]);
    }
  };

  let known = list ? list.dataset.version : null;
  let working = false;
  const look = async (version) => {
    if (!list) return;
    if (version === known && version !== null) return;
    if (working) return;
    working = true;
    try {
      await refresh();
      known = version === null ? known : version;
      fresh.textContent = fresh.dataset.ok;
    } catch (error) {
      fresh.textContent = error.message === "ended" ? fresh.dataset.ended : fresh.dataset.lost;
      if (error.message === "ended") lock(true);
    }
    working = false;
  };
  const listen = () => {
    const source = new EventSource("/today/changes");
    source.addEventListener("version", (event) => look(event.data));
    source.addEventListener("count", (event) => show(event.data));
    source.addEventListener("open", () => { if (fresh) fresh.textContent = fresh.dataset.ok; });
    source.addEventListener("error", () => {
      if (fresh) fresh.textContent = fresh.dataset.lost;
      if (source.readyState !== EventSource.CLOSED) return;
      check();
      look(null);
      window.setTimeout(listen, 10000);
    });
  };
  listen();
  window.setInterval(() => look(null), 60000);
})();
