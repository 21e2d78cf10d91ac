// What every page does: keys, dialogs, confirmations, copying, notices. A page works without it, by plain links and forms.
import "./live.js";
import "./times.js";

const byId = (id) => document.getElementById(id);

/* What the reader opened stays open, and what they are typing stays typed. */
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) => name !== "open" && !(["value", "selected", "checked"].includes(name) && element.closest("[data-typed], [data-search]"));

/* A search begins when the typing pauses. htmx would forget a trigger that it delays when a live refresh replaces the box. */
const PAUSE_IN_TYPING_MS = 200;
let typing, repeated;
document.addEventListener("input", ({ target }) => {
  if (!target.matches("[data-search][hx-get]")) return;
  clearTimeout(typing);
  repeated = undefined;
  typing = setTimeout(() => {
    typing = undefined;
    const box = byId(target.id);
    if (box) htmx.trigger(box, "typed");
  }, PAUSE_IN_TYPING_MS);
});

/* A live refresh that is answered while a search begins can swallow it. The box knows which search the shown rows answer: if
   that is not what it holds, the search is repeated, once for each text. */
document.addEventListener("htmx:afterSettle", () => {
  if (typing) return;
  for (const box of document.querySelectorAll("[data-search][data-searched]")) {
    const wanted = box.value.trim();
    if (wanted === box.dataset.searched.trim() || wanted === repeated) continue;
    repeated = wanted;
    htmx.trigger(box, "typed");
  }
});

/* What was typed before the scripts were here is searched for now. */
addEventListener("load", () => {
  for (const box of document.querySelectorAll("[data-search][hx-get]")) if (box.value !== box.defaultValue) htmx.trigger(box, "typed");
});

/* Keys: "?" lists them; the dialog `keys` of the frame has the words. */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey) return;
  const isTyping = event.target.closest?.("input, select, textarea, dialog[open]");
  if (event.key === "Escape" && event.target.matches?.("[data-search]")) event.target.blur();
  if (isTyping) return;
  if (event.key === "/") {
    const box = document.querySelector("[data-search]");
    if (box) event.preventDefault(), box.focus(), box.select();
  } else if (event.key === "?") byId("keys")?.showModal();
  else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
});

function walk(by) {
  const stops = [...document.querySelectorAll("td .name a[href]")];
  const at = stops.indexOf(document.activeElement);
  stops[Math.min(stops.length - 1, Math.max(0, at + by))]?.focus();
}

/* A form behind a button: opened, its first field has the focus; Escape closes it. */
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details.do[open]")) event.target.querySelector("input:not([type=hidden])")?.focus();
}, true);
document.addEventListener("keydown", (event) => {
  const opened = event.key === "Escape" && event.target.closest?.("details.do[open]");
  if (opened) (opened.open = false), opened.querySelector("summary").focus();
});

/* Dialogs: a link or button opens the one that it names. */
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener && byId(opener.dataset.open)) event.preventDefault(), byId(opener.dataset.open).showModal();
  if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
  if (event.target.localName === "dialog" && isOutside(event)) event.target.close();
  const copier = event.target.closest("[data-copy]");
  if (copier) copy(copier);
});

function isOutside({ target, clientX, clientY }) {
  const box = target.getBoundingClientRect();
  return clientX < box.left || clientX > box.right || clientY < box.top || clientY > box.bottom;
}

async function copy(button) {
  const source = byId(button.dataset.copy);
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    source.hidden = false;
    getSelection().selectAllChildren(source); // the clipboard is not permitted: ready for Ctrl-C
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = said), 1600);
}

/* A confirmation names the thing, and its button says what will happen. Where a plan can be shown first, that is a choice, which is
   remembered: the form then asks for another type of job. */
document.addEventListener("htmx:confirm", (event) => {
  const { elt, question, issueRequest } = event.detail;
  if (!question) return;
  event.preventDefault();
  const dialog = byId("confirm");
  const yes = dialog.querySelector("[data-yes]");
  dialog.querySelector("h2").textContent = question;
  const first = byId("confirm-first");
  first.parentElement.hidden = !("first" in elt.dataset);
  first.checked = "first" in elt.dataset && localStorage.getItem("plan-first") !== "no";
  const tell = () => {
    dialog.querySelector("p").textContent = (first.checked ? elt.dataset.firstConsequence : elt.dataset.consequence) ?? "";
    yes.textContent = (first.checked ? elt.dataset.firstYes : elt.dataset.yes) ?? "Yes";
  };
  first.onchange = () => (localStorage.setItem("plan-first", first.checked ? "yes" : "no"), tell());
  tell();
  yes.classList.toggle("danger", "danger" in elt.dataset);
  yes.classList.toggle("solid", "danger" in elt.dataset);
  yes.classList.toggle("primary", !("danger" in elt.dataset));
  dialog.returnValue = "";
  const asked = sent(elt);
  dialog.onclose = () => {
    if (dialog.returnValue !== "yes") return;
    if (sent(elt) !== asked) return toast("The page has changed since you were asked. Look at it, and try again.", "bad");
    const type = first.checked && elt.elements.type;
    const was = type?.value;
    if (type) type.value = elt.dataset.first;
    issueRequest(true);
    if (type) type.value = was;
  };
  dialog.showModal();
});

/* What a form sends. Pages renew themselves, also below a dialog: nobody confirms what they were not asked about. */
function sent(elt) {
  if (elt.localName !== "form") return "";
  const data = new FormData(elt);
  data.delete("_csrf");
  return `${elt.isConnected} ${new URLSearchParams(data)}`;
}

/* Notices */
const SHAPES = { ok: "M2 7.5l3.5 3.5L12 3.5", bad: "M3 3l8 8M11 3l-8 8" };
function toast(text, tone) {
  const box = byId("toasts");
  const element = document.createElement("div");
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  element.className = "toast";
  icon.setAttribute("viewBox", "0 0 14 14");
  icon.setAttribute("class", `line ${tone}`);
  icon.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPES[tone]);
  path.setAttribute("stroke-width", "2");
  icon.append(path);
  const line = document.createElement("span");
  text.split("`").forEach((part, at) => line.append(at % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part));
  element.append(icon, line);
  box.append(element);
  box.hidePopover?.(), box.showPopover?.(); // above an open dialog
  setTimeout(() => element.remove(), tone === "bad" ? 9000 : 4500);
}
document.body.addEventListener("said", (event) => toast(event.detail.value, "ok"));
document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => xhr.status !== 401 && toast(problem(xhr), "bad"));
function problem(xhr) {
  try {
    return JSON.parse(xhr.responseText).detail;
  } catch {
    return `The server answered ${xhr.status}.`;
  }
}
// A page that refreshes itself says by its mark that it is not live; only what a person did gets a message.
document.addEventListener("htmx:sendError", ({ detail: { requestConfig } }) => {
  if (requestConfig?.triggeringEvent?.type === "refresh") return;
  toast("The server does not answer. Nothing was changed by this; try again.", "bad");
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (!detail.successful) return;
  detail.elt.closest("dialog[data-closes]")?.close();
  if (detail.elt.matches("details.do form")) detail.elt.reset(), (detail.elt.closest("details").open = false);
});

/* Light, dark, or as the system has it */
const THEMES = ["auto", "light", "dark"];
const themer = byId("theme");
function showTheme() {
  if (themer) themer.textContent = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[localStorage.getItem("theme") ?? "auto"];
}
themer?.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "auto") + 1) % THEMES.length];
  if (next === "auto") localStorage.removeItem("theme"), delete document.documentElement.dataset.theme;
  else localStorage.setItem("theme", next), (document.documentElement.dataset.theme = next);
  showTheme();
});
showTheme();
