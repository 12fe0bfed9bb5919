// The page: what is advised now, what comes, a question or two, how it went. It shows what the phone carries first, and
// brings it up to date as soon as there is a network.
import { carriedAction, coming, due, standing } from "./advice.js";
import { sense } from "./sensors.js";
import { Refused, Service, store } from "./service.js";
import { textsFor } from "./texts.js";

const MOST_PAUSE = 30_000;
const service = new Service(document.querySelector('meta[name="service"]').content);
const $ = (id) => document.getElementById(id);
let online = navigator.onLine;
let shown = ""; // the advice on the page, so that a change is noticed
let listening = null;

const content = () => store.get("content");
const t = () => textsFor(content()?.language || navigator.language);
// The study's language, as it is written where the phone is at home: 06:44 or 6:44 am.
const language = () => {
  const own = content()?.language || navigator.language;
  return navigator.languages.find((each) => each.split("-")[0] === own.split("-")[0]) || own;
};
const clock = (at, more = {}) => new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", ...zone(), ...more }).format(new Date(at));
// The participant's clock is the one that counts, wherever the phone is.
const zone = () => (store.get("bundle") ? { timeZone: store.get("bundle").timezone } : {});
const date = (at, options) => new Intl.DateTimeFormat(language(), { ...zone(), ...options }).format(new Date(at));
const dayOf = (at) => new Intl.DateTimeFormat("sv", zone()).format(new Date(at));

function day(at) {
  if (dayOf(at) === dayOf(service.now())) return t().today;
  if (dayOf(at) === dayOf(service.now() + 86_400_000)) return t().tomorrow;
  return date(at, { weekday: "long" });
}

function put(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

// ---- what is shown ----

function render() {
  const known = content();
  document.documentElement.lang = known?.language || navigator.language;
  document.title = t().title;
  const hour = Number(new Intl.DateTimeFormat("en-GB", { hour: "2-digit", ...zone() }).format(new Date()));
  document.documentElement.dataset.time = hour >= 5 && hour < 18 ? "day" : "evening";
  put("greeting", hour < 5 || hour >= 18 ? t().evening : hour < 12 ? t().morning : t().afternoon);
  put("date", date(service.now(), { weekday: "long", day: "numeric", month: "long" }));
  $("connect").hidden = service.connected;
  $("day").hidden = $("about").hidden = !service.connected || !known;
  put("link", service.connected ? (online ? t().online : t().offline) : "");
  $("link").classList.toggle("off", !online);
  if (!service.connected) return renderConnect();
  if (!known) return;
  renderAdvice(known);
  renderCall(known);
  renderQuestions(known);
  renderReward(known);
  renderComing(known);
  put("who", t().who(service.participant, clock(store.get("seen") || service.now(), { day: "numeric", month: "short" })));
  put("leave", t().leave);
  put("notify", t().notify);
  $("notify").hidden = !("Notification" in window) || Notification.permission !== "default";
}

function renderConnect() {
  put("connect-title", t().connect);
  put("connect-text", t().connectText);
  put("code-label", t().code);
  put("connect-button", t().connectButton);
}

function renderAdvice(known) {
  const advice = standing(store.get("bundle"), store.get("decision"), store.get("carried"), service.now());
  const status = t().statuses[store.get("status")];
  const action = advice && known.actions.find((each) => each.action === advice.action);
  const title = status || action?.label || t().none;
  put("when", advice?.until && !status ? t().until(until(advice.until)) : t().now);
  put("advice-title", title);
  put("how", status ? "" : action ? action.description || "" : t().noneText);
  const fresh = advice?.decision?.revealed;
  const since = store.get("since");
  put("chip", !advice || status ? "" : advice.carried ? t().carried : fresh && since ? t().fresh(clock(since)) : since ? t().since(date(since, { weekday: "long" })) : t().now);
  $("chip").hidden = !$("chip").textContent;
  $("chip").classList.toggle("new", Boolean(fresh && !advice.carried));
  const now = `${title}|${Boolean(fresh)}`;
  if (shown && shown !== now) {
    $("advice").classList.remove("changed");
    void $("advice").offsetWidth; // begins the animation again
    $("advice").classList.add("changed");
  }
  shown = now;
}

function until(at) {
  if (dayOf(at) === dayOf(service.now())) return clock(at);
  return `${day(at) === t().tomorrow ? t().tomorrowWithin : day(at)}, ${clock(at)}`;
}

function renderCall(known) {
  const decision = store.get("decision");
  const waits = decision?.status === "nudge" && decision.expires && Date.parse(decision.expires) > service.now();
  $("call").hidden = !waits || known.nudge.by !== "staff";
  if (!waits) return;
  put("call-title", t().callTitle(known.nudge.name, clock(decision.expires)));
  put("call-text", t().callText);
}

function renderQuestions(known) {
  $("ask").hidden = known.questions.length === 0 || ["withdrawn", "completed"].includes(store.get("status"));
  if ($("questions").dataset.version === known.version) return;
  $("questions").dataset.version = known.version;
  const single = known.questions.length === 1 && known.questions[0].answers.length > 0;
  put("ask-title", single ? known.questions[0].text : t().ask);
  $("questions").replaceChildren(...known.questions.map((question) => field(question, single)));
  if (!single) $("questions").append(make("button", { className: "main", textContent: t().send }));
}

function field(question, single) {
  const part = make("fieldset", {});
  part.append(make("legend", { textContent: question.text, hidden: single }));
  if (single) part.setAttribute("aria-labelledby", "ask-title");
  part.dataset.variable = question.variable;
  if (question.answers.length === 0) {
    const input = make("input", { type: "number", min: question.low ?? "", max: question.high ?? "", step: question.step ?? "any", required: true });
    input.setAttribute("aria-label", question.text);
    part.append(input);
    return part;
  }
  const answers = make("div", { className: "answers" });
  question.answers.forEach((answer, i) => {
    const button = make("button", { type: single ? "submit" : "button", textContent: answer.label });
    button.dataset.place = i;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      for (const other of answers.children) other.setAttribute("aria-pressed", String(other === button));
    });
    answers.append(button);
  });
  part.append(answers);
  return part;
}

function make(name, values) {
  return Object.assign(document.createElement(name), values);
}

function renderReward(known) {
  const decision = store.get("decision");
  if ($("did").dataset.decision !== (decision?.decision || "")) {
    $("did").dataset.decision = decision?.decision || "";
    put("saved", "");
  }
  const asked = decision && decision.status === "settled" && store.get("rewarded") !== decision.decision;
  $("did").hidden = !asked && !$("saved").textContent;
  $("reward").hidden = !asked;
  put("did-title", t().did);
  put("unit", known.reward.unit || "");
  put("save", t().save);
  $("less").setAttribute("aria-label", "−5");
  $("more").setAttribute("aria-label", "+5");
}

function renderComing(known) {
  const points = coming(store.get("bundle"), service.now());
  $("coming").hidden = points.length === 0 || Boolean(t().statuses[store.get("status")]);
  put("coming-title", t().coming);
  put("coming-note", t().comingNote);
  const items = points.map((point) => {
    const item = make("li", {});
    item.append(make("time", { dateTime: point.at, textContent: `${day(point.at)}, ${clock(point.at)}` }));
    const action = known.actions.find((each) => each.action === point.action);
    item.append(make("span", { textContent: action?.label || point.action }));
    return item;
  });
  $("points").replaceChildren(...items);
}

// ---- what is done ----

function reported() {
  const found = {};
  for (const part of $("questions").querySelectorAll("fieldset")) {
    const question = content().questions.find((each) => each.variable === part.dataset.variable);
    const input = part.querySelector("input");
    const pressed = part.querySelector('[aria-pressed="true"]');
    if (input ? input.value === "" : !pressed) return null;
    found[question.variable] = input ? Number(input.value) : question.answers[Number(pressed.dataset.place)].value;
  }
  return found;
}

async function tell(event) {
  event.preventDefault();
  const values = reported();
  if (!values) return;
  put("thanks", t().asking);
  const key = service.enqueue(service.mine("/openings"), { reported: values, at: new Date(service.now()).toISOString() });
  const answer = await send(key);
  const escalated = answer?.escalations?.length ? ` ${t().escalated}` : "";
  if (answer?.decision) store.set("decision", answer.decision);
  if (answer === null) put("thanks", t().thanksLater);
  else if (answer instanceof Refused) put("thanks", t().refused);
  else put("thanks", (answer.counts === "now" ? t().thanksNow : t().thanksNext) + escalated);
  for (const button of $("questions").querySelectorAll("[aria-pressed]")) button.setAttribute("aria-pressed", "false");
  render();
}

// What was said to be kept on this phone is sent by now.
function wasSent(answered) {
  const answers = [...answered.values()];
  const refused = answers.some((each) => each instanceof Refused && each.code !== "reward_differs");
  const thanks = answers.some((each) => each?.counts === "now") ? t().thanksNow : t().thanksNext;
  for (const [id, text] of [["thanks", thanks], ["saved", t().saved]]) {
    if ($(id).textContent === t().thanksLater) put(id, refused ? t().refused : text);
  }
}

// Send what is kept; what was answered to one of them, or null as long as there is no network.
async function send(key) {
  try {
    return (await service.flush()).get(key) ?? null;
  } catch (error) {
    lost(error);
    return null;
  }
}

async function save(event) {
  event.preventDefault();
  const { low, high } = content().reward;
  const amount = Number($("amount").value.trim().replace(",", "."));
  const wrong = $("amount").value.trim() === "" || Number.isNaN(amount) || (low !== null && amount < low) || (high !== null && amount > high);
  if (wrong) return put("saved", t().number(Math.max(low ?? 0, 0), high ?? "…"));
  const { decision } = store.get("decision");
  const key = service.enqueue(`decisions/${decision}/reward`, { reward: amount });
  store.set("rewarded", decision);
  put("saved", "…");
  const answer = await send(key);
  put("saved", answer instanceof Refused && answer.code !== "reward_differs" ? t().refused : answer === null ? t().thanksLater : t().saved);
  render();
}

function change(by) {
  const { low, high } = content().reward;
  const next = (Number($("amount").value.replace(",", ".")) || 0) + by;
  $("amount").value = String(Math.min(Math.max(next, Math.max(low ?? 0, 0)), high ?? next));
}

// At a decision point: ask the service; without a network show what the phone carries, and say so later.
async function decide() {
  const bundle = store.get("bundle");
  const point = due(bundle, store.get("decision"), store.get("asked"), service.now());
  if (!point || !content() || t().statuses[store.get("status")]) return;
  const path = service.mine("/decisions");
  const sensed = await sense(content());
  store.set("asked", point.step); // one question for each point, whatever becomes of it
  if (!online) {
    const shown = carriedAction(bundle, point, sensed);
    store.set("carried", { step: point.step, action: shown });
    service.enqueue(path, { sensed, at: new Date(service.now()).toISOString(), shown });
    return;
  }
  service.enqueue(path, { sensed, at: new Date(service.now()).toISOString() });
  const answered = await service.flush();
  const decision = [...answered.values()].find((each) => each?.step === point.step);
  if (decision) store.set("decision", decision);
}

async function refresh() {
  await service.content();
  await service.bundle();
  const person = await service.request("GET", service.mine());
  store.set("status", person.status);
  store.set("since", person.last_reveal ? Date.parse(person.last_reveal) : null);
  store.set("seen", service.now());
}

function take(items) {
  for (const item of items) {
    store.set("status", item.status);
    if (!item.decision) continue;
    const before = store.get("decision");
    if (!before || item.decision.step >= before.step) store.set("decision", item.decision);
    const fresh = item.kind === "advice" && item.decision.revealed && before?.status === "nudge";
    if (fresh && document.hidden) notify(item.decision);
  }
}

async function notify(decision) {
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  const registration = await navigator.serviceWorker.ready;
  const label = content().actions.find((each) => each.action === decision.action)?.label;
  registration.showNotification(t().changed, { body: label, icon: "icon-192.png", tag: "advice" });
}

// Up to date as long as there is a network; with growing pauses while there is none.
async function listen() {
  listening?.abort();
  const { signal } = (listening = new AbortController());
  let pause = 1000;
  while (!signal.aborted && service.connected) {
    try {
      wasSent(await service.flush());
      await refresh();
      connectedAgain(true);
      await decide();
      for await (const items of service.events(signal)) {
        pause = 1000;
        connectedAgain(true);
        take(items);
        if (items.length) await refresh();
        await decide();
        store.set("seen", service.now());
        render();
      }
    } catch (error) {
      if (signal.aborted) return;
      lost(error);
      await decide().catch(() => {});
      render();
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
      pause = Math.min(pause * 2, MOST_PAUSE);
    }
  }
}

function connectedAgain(now) {
  if (online === now) return;
  online = now;
  render();
}

function lost(error) {
  if (error instanceof Refused && error.status === 401) {
    leave();
    put("connect-wrong", t().disconnected);
    return;
  }
  connectedAgain(false);
}

function leave() {
  listening?.abort();
  store.clear();
  service.token = null;
  shown = "";
  render();
}

async function connect(code) {
  put("connect-wrong", "");
  try {
    await service.connect(code);
    if (navigator.storage?.persist) navigator.storage.persist(); // what was answered must not be cleared away
  } catch (error) {
    return put("connect-wrong", error instanceof Refused ? t().connectWrong : t().connectOffline);
  }
  render();
  listen();
}

$("connect").addEventListener("submit", (event) => {
  event.preventDefault();
  connect($("code").value);
});
$("questions").addEventListener("submit", tell);
$("reward").addEventListener("submit", save);
$("less").addEventListener("click", () => change(-5));
$("more").addEventListener("click", () => change(5));
$("leave").addEventListener("click", () => confirm(t().leaveSure) && leave());
$("notify").addEventListener("click", () => Notification.requestPermission().then(render));
window.addEventListener("offline", () => connectedAgain(false));
window.addEventListener("online", listen);
document.addEventListener("visibilitychange", () => document.hidden || render());
setInterval(() => decide().catch(lost).finally(render), 30_000);

if ("serviceWorker" in navigator) navigator.serviceWorker.register("sw.js");
const given = decodeURIComponent(location.hash.slice(1));
if (given) history.replaceState(null, "", location.pathname); // a code has no place in an address that is kept
render();
if (given.startsWith("opr_")) connect(given);
else if (service.connected) listen();
