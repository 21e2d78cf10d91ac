// The page's one event stream. Events are wake-ups: what they concern is fetched again, soon, and never more often than it helps.

const PAUSE_MS = 1000; // two refreshes may follow each other at once, and then the next one waits until this long after the first
const BUSY_MS = 50;
const SILENT_MS = 45_000;
const mark = document.querySelector("[data-live-mark]");
const url = document.body.dataset.live;
const handlers = new Map();
const dirty = new Set();
let source, last = "", delay = 1000, flushed = [0, 0], timer, heard = 0, wasOpen = false;

export const live = {
  on(topic, handler) { handlers.set(topic, [...(handlers.get(topic) ?? []), handler]); },
  say(state, word) {
    if (!mark || mark.textContent === word) return;
    mark.dataset.state = state;
    mark.textContent = word;
  },
  close() {
    source?.close();
    source = null;
  },
};

function open() {
  source = new EventSource(last ? `${url}${url.includes("?") ? "&" : "?"}last_event_id=${encodeURIComponent(last)}` : url);
  source.onopen = () => {
    delay = 1000;
    live.say("on", "Live");
    if (wasOpen) document.querySelectorAll("[data-on]").forEach(touch); // something may have happened meanwhile
    wasOpen = true;
  };
  source.onerror = () => {
    live.say("wait", "Reconnecting…");
    // The browser tries again by itself, unless it was answered with an error: then it is up to us.
    if (source.readyState === EventSource.CLOSED) setTimeout(open, (delay = Math.min(delay * 2, 30_000)) * (0.5 + Math.random() / 2));
  };
  for (const [topic, each] of handlers)
    source.addEventListener(topic, (event) => {
      if (event.lastEventId) last = event.lastEventId;
      heard &&= Date.now(); // a stream with news has no time for pings
      for (const handler of each) handler(event);
    });
  source.addEventListener("ping", () => (heard = Date.now()));
}

/** What grows old without an event (a last word, a reason to wait) is fetched again from time to time. */
function refresh() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("[data-every]")) if (Date.now() - flushed[1] > element.dataset.every * 1000) touch(element);
}

/** A connection that died without a word is noticed by its missing pings. */
function watch() {
  if (!source || !heard || Date.now() - heard < SILENT_MS) return;
  heard = 0;
  source.close();
  live.say("wait", "Reconnecting…");
  open();
}

function touch(element) {
  dirty.add(element.id);
  if (!timer) timer = setTimeout(flush, Math.max(0, flushed[0] + PAUSE_MS - Date.now()));
}

function flush() {
  timer = undefined;
  if (document.hidden) return; // fetched when somebody looks again
  const ready = [...dirty].filter((id) => !document.getElementById(id)?.classList.contains("htmx-request"));
  if (ready.length) flushed = [flushed[1], Date.now()];
  for (const id of ready) {
    dirty.delete(id);
    const element = document.getElementById(id);
    if (element) htmx.trigger(element, "refresh");
  }
  if (dirty.size) timer = setTimeout(flush, Math.max(BUSY_MS, flushed[0] + PAUSE_MS - Date.now())); // an answer on its way may be older than the event: once more after it
}

const topics = new Set([...document.querySelectorAll("[data-on]")].flatMap((element) => element.dataset.on.split(" ")));
for (const topic of topics) live.on(topic, () => document.querySelectorAll(`[data-on~="${topic}"]`).forEach(touch));
document.addEventListener("visibilitychange", () => !document.hidden && dirty.size && flush());
document.body.addEventListener("changed", () => document.querySelectorAll("[data-on]").forEach(touch));
addEventListener("pagehide", () => live.close());
addEventListener("pageshow", (event) => event.persisted && url && open());
addEventListener("DOMContentLoaded", () => {
  if (!url) return;
  live.say("off", "Connecting…");
  open();
  setInterval(watch, 5000);
  setInterval(refresh, 1000);
});
