// The service worker: the page opens without a network, from what was fetched before, and is brought up to date behind.
const CACHE = "study-app-1";
const SHELL = [
  "index.html", "app.css", "app.js", "service.js", "advice.js", "sensors.js", "texts.js", "manifest.webmanifest", "icon.svg",
  "icon-192.png",
];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = caches.keys().then((names) => Promise.all(names.filter((n) => n !== CACHE).map((n) => caches.delete(n))));
  event.waitUntil(old.then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const mine = request.url.startsWith(self.registration.scope); // the service's own addresses are none of ours
  if (request.method !== "GET" || !mine) return;
  event.respondWith(answer(request, event));
});

async function answer(request, event) {
  const cache = await caches.open(CACHE);
  const name = request.mode === "navigate" ? "index.html" : request;
  const kept = await cache.match(name, { ignoreSearch: true });
  const fresh = fetch(request).then((response) => {
    if (response.ok) cache.put(name, response.clone());
    return response;
  });
  if (!kept) return fresh;
  event.waitUntil(fresh.catch(() => undefined));
  return kept;
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const opened = self.clients.matchAll({ type: "window" });
  event.waitUntil(opened.then(([page]) => (page ? page.focus() : self.clients.openWindow("index.html"))));
});
