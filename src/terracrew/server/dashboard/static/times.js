// Ages and durations go on counting in the browser, by the server's clock and in the server's words.

const ahead = Number(document.body.dataset.now) * 1000 - Date.now();

export function duration(seconds) {
  seconds = Math.max(0, seconds);
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function ago(seconds) {
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

function tick() {
  const now = Date.now() + ahead;
  for (const element of document.querySelectorAll("time[data-tick]")) {
    const seconds = (now - Date.parse(element.dateTime)) / 1000;
    const text = element.dataset.tick === "ago" ? ago(seconds) : duration(element.dataset.tick === "left" ? -seconds : seconds);
    if (element.textContent !== text) element.textContent = text;
  }
}

for (const element of document.querySelectorAll("time")) element.title ||= new Date(element.dateTime).toLocaleString();
document.addEventListener("mouseover", (event) => {
  if (event.target.localName === "time" && !event.target.title) event.target.title = new Date(event.target.dateTime).toLocaleString();
});
setInterval(tick, 1000);
