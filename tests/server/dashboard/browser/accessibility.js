// Returns what is wrong on a page: names, ids, headings, references and contrast of what is visible now.
(least) => {
  const faults = [], all = [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility({ visibilityProperty: true }));
  const say = (element, what) => faults.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const known = (element, name) => (element.getAttribute(name) ?? "").split(" ").filter(Boolean);

  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of ids.filter((each, at) => ids.indexOf(each) !== at)) faults.push(`two elements have the id ${id}`);
  for (const name of ["for", "aria-labelledby", "aria-describedby", "popovertarget", "list"])
    for (const each of document.querySelectorAll(`[${name}]`))
      for (const id of known(each, name)) if (!document.getElementById(id)) say(each, `${name} names nothing`);

  for (const each of all.filter((one) => one.matches("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"))) {
    const labels = [each.ariaLabel, ...[...(each.labels ?? [])].map((label) => label.innerText), each.matches("input, select, textarea") ? "" : each.innerText];
    if (!labels.some((text) => text?.trim())) say(each, "no name");
  }
  for (const each of all.filter((one) => one.localName === "svg")) if (!each.closest("[aria-hidden=true]")) say(each, "a picture that is read aloud");
  for (const each of all.filter((one) => one.localName === "table" && one.tHead)) for (const cell of each.tHead.querySelectorAll("th")) if (!cell.textContent.trim()) say(cell, "a column without a name");

  const levels = all.filter((one) => /^h[1-6]$/.test(one.localName)).map((one) => Number(one.localName[1]));
  if (levels.filter((level) => level === 1).length !== 1) faults.push(`not one h1: ${levels}`);
  levels.forEach((level, at) => { if (level > (levels[at - 1] ?? 0) + 1) faults.push(`a heading skips a level: ${levels}`); });
  if (!document.documentElement.lang || !document.querySelector("main") || !document.title) faults.push("no language, main part or title");

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const ground = (element) => { if (!element) return rgba(getComputedStyle(document.body).backgroundColor); const own = rgba(getComputedStyle(element).backgroundColor); return own[3] === 1 ? own : over(own, ground(element.parentElement)); };
  const light = (colour) => { const [r, g, b] = colour.slice(0, 3).map((part) => (part /= 255) <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const each of all) {
    if (![...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) || each.closest(".hidden, .skip, option")) continue;
    const back = ground(each), front = over(rgba(getComputedStyle(each).color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < least) say(each, `contrast ${ratio.toFixed(2)}`);
  }
  return faults;
}
