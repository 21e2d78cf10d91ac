// The log viewer of the job page: joins what comes by the page's stream (or, for a finished log, by one request) to its bar and view.
import { live } from "./live.js";
import { Earlier } from "./log/earlier.js";
import { Lines } from "./log/lines.js";
import { Search } from "./log/search.js";
import { View } from "./log/view.js";

const SLICE_MS = 10;
const DRAW_MS = 150;
const panel = document.querySelector("[data-log]");
const part = (name) => panel.querySelector(`[data-part="${name}"]`);
const number = new Intl.NumberFormat("en");

// Of a long log, only the last lines are loaded: so many come before them.
const lines = new Lines(Number(panel.dataset.before ?? 0));
const labels = JSON.parse(panel.dataset.steps);
const view = new View(part("view"), lines, labels);
const search = new Search(lines, showHits);
// What is found in lines that are not loaded comes before what is found in those that are: it is shown in a box of its own.
const earlier = new Earlier(panel.dataset.searchUrl, lines.before, (more) => {
  if (search.at >= 0) current += more; // hits that come before the one that is shown
  showHits();
});
const queue = [];
let current = -1, isPumping = false, isComplete = false, drawn = 0, isInContact = !("outOfContact" in panel.dataset), wanted = lineOf(location.hash);

/** The number of the line that `#L…` names, if it names one. */
function lineOf(hash) {
  return Number(/^#L(\d+)$/.exec(hash)?.[1] ?? 0);
}

/** Decode and join what has come, a slice at a time, so that the page stays in the reader's hands. */
function pump() {
  const until = performance.now() + SLICE_MS;
  let taken = 0;
  while (taken < queue.length && performance.now() < until) {
    const events = JSON.parse(queue[taken++]);
    for (const event of Array.isArray(events) ? events : [events]) lines.add(event);
  }
  queue.splice(0, taken);
  isPumping = queue.length > 0;
  if (isPumping) soon();
  if (!isPumping || performance.now() - drawn > DRAW_MS) show();
}

// A timer would wait four milliseconds each time; a message waits for nothing but the page itself.
const channel = new MessageChannel();
channel.port1.onmessage = pump;
const soon = () => channel.port2.postMessage(null);

function take(text) {
  queue.push(text);
  if (!isPumping) isPumping = true, soon();
}

function show() {
  drawn = performance.now();
  part("view").hidden = lines.length === 0;
  view.update();
  search.more();
  const isEmpty = lines.length === 0;
  const total = lines.before + lines.length;
  part("count").textContent = isEmpty ? "" : lines.before ? `lines ${number.format(lines.before + 1)}–${number.format(total)}` : `${number.format(total)} ${total === 1 ? "line" : "lines"}`;
  part("empty").hidden = !isEmpty || isPumping;
  part("empty").textContent = isComplete ? "Nothing was printed." : panel.dataset.empty;
  if (wanted && wanted <= lines.before) return void location.assign(`${part("all").search}#L${wanted}`); // it is not loaded
  if (wanted && (total >= wanted || (isComplete && !isPumping))) view.show(Math.min(wanted, total) - lines.before - 1), (wanted = null);
}

function showHits() {
  const total = earlier.hits.length + search.hits.length, isDone = search.isDone && earlier.isDone;
  const more = earlier.isCut ? "+" : isDone ? "" : "…";
  part("hits").textContent = !search.needle ? "" : total ? `${current < 0 ? "" : `${number.format(current + 1)} of `}${number.format(total)}${more}` : isDone ? "none" : "…";
  part("previous").hidden = part("next").hidden = !search.needle || !total;
}

/** One hit onward or back, first through what is not loaded. */
function step(by) {
  const total = earlier.hits.length + search.hits.length;
  if (!total) return;
  current = current < 0 ? (by > 0 ? 0 : total - 1) : (current + by + total) % total;
  const hit = earlier.hits[current];
  search.at = hit ? -1 : current - earlier.hits.length;
  showHits();
  if (hit) earlier.draw(part("found"), hit, labels, part("all")?.search);
  else (part("found").hidden = true), view.show(search.hits[search.at]);
}

/** A finished log is one long answer of JSON lines; cut off, it goes on behind the last event that came. */
async function load(url) {
  let newest = panel.dataset.after ?? "";
  for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
    try {
      for await (const text of linesOf(`${url}&after=${newest}`)) take(text), (newest = placeOf(text)), (wait = 500);
      return;
    } catch (problem) {
      if (problem instanceof Refused) return live.say("wait", `The log cannot be read: ${problem.message}`);
      live.say("wait", "Reconnecting…");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

/** Where an event is in the log of the whole run. */
function placeOf(text) {
  const { attempt, n } = JSON.parse(text);
  return `${attempt}.${n}`;
}

class Refused extends Error {}

async function* linesOf(url) {
  const answer = await fetch(url);
  if (answer.status >= 400 && answer.status < 500) throw new Refused(`the server answered ${answer.status}`);
  if (!answer.ok) throw new Error(`${answer.status}`);
  live.say("on", "Loading log…");
  let rest = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    const texts = (rest + step.value).split("\n");
    rest = texts.pop();
    for (const text of texts) if (text) yield text;
    while (queue.length > 400) await new Promise((resolve) => setTimeout(resolve, SLICE_MS)); // the network may wait for us
  }
  if (rest) yield rest;
}

function toggle(name, apply) {
  const button = part(name);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    apply(on);
  });
}

toggle("wrap", (on) => view.wrap(on));
toggle("times", (on) => view.times(on));
part("follow").addEventListener("click", () => view.follow(!view.isFollowing));
view.onfollow = (on) => {
  part("follow").setAttribute("aria-pressed", String(on));
  showFollowing();
};

/** Nothing comes from a runner without contact, so nothing is followed, whatever the reader wants. */
function showFollowing() {
  const word = part("follow").querySelector("span");
  word.dataset.state = view.isFollowing && isInContact ? "on" : "off";
  word.textContent = !isInContact ? "No contact" : view.isFollowing ? "Following" : "Follow";
}

const box = part("search");
box.addEventListener("input", () => {
  current = -1;
  part("found").hidden = true;
  earlier.start(box.value);
  search.start(box.value);
  view.find = search.needle ? (text) => search.find(text) : null;
  view.redraw();
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    box.value = "";
    box.dispatchEvent(new Event("input"));
    view.unmark();
  }
  if (event.key !== "Enter") return;
  event.preventDefault();
  step(event.shiftKey ? -1 : 1);
});
part("previous").addEventListener("click", () => step(-1));
part("next").addEventListener("click", () => step(1));
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-step]");
  if (!link) return;
  event.preventDefault();
  view.showSection(link.dataset.step);
  panel.scrollIntoView({ block: "nearest" });
});

// The address of a line may change while the page is open: by the address bar, by a link, by going back.
addEventListener("hashchange", () => {
  wanted = lineOf(location.hash);
  if (wanted) show();
});

function complete() {
  if (isPumping) return void setTimeout(complete, SLICE_MS); // what has come is not yet all there
  isComplete = true;
  view.isLive = false;
  view.follow(false);
  part("follow").hidden = true;
  live.say("done", "Finished");
  document.getElementById("job").removeAttribute("data-every");
  if ("atEnd" in panel.dataset && !lineOf(location.hash)) view.toEnd(); // an engine prints its errors last
  show();
}

if (panel.dataset.log === "finished") {
  part("follow").hidden = true;
  load(panel.dataset.url).then(complete);
} else {
  view.isLive = true;
  if (!wanted) view.follow(true);
  live.on("log", (event) => take(event.data));
  live.on("job", (event) => {
    const { reason } = JSON.parse(event.data);
    isInContact = !["lost", "silent"].includes(reason?.code);
    showFollowing();
  });
  showFollowing();
  live.on("end", () => (live.close(), complete()));
  show();
}
