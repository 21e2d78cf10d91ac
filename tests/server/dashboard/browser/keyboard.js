() => {
  // Follows a walk through the page with the Tab key; keyboard.py presses it. What has the focus is looked at each time before
  // the next key is pressed, because only then has the page scrolled to it.
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const reached = new Set();
  const wrong = new Set();

  function name(each) {
    const text = each.getAttribute("aria-label") || each.innerText || each.id;
    return `${each.localName} "${text.trim().slice(0, 60)}"`;
  }

  function isStop(each) {
    const isVisible = each.checkVisibility({ visibilityProperty: true }) && each.getBoundingClientRect().width > 0;
    return isVisible && !each.disabled && each.tabIndex >= 0;
  }

  // Tab stops at one button of a group of radio buttons; the arrow keys reach the others.
  function radioGroup(each) {
    return each.type === "radio" ? `${each.form?.id} ${each.name}` : "";
  }

  function isCovered(at) {
    const box = at.getBoundingClientRect();
    const top = document.elementFromPoint(
      box.left + Math.min(box.width, 40) / 2, box.top + Math.min(box.height, 24) / 2,
    );
    return top !== null && !at.contains(top) && !top.contains(at);
  }

  function examine() {
    const at = document.activeElement;
    if (!at || at === document.body || reached.has(at)) return;
    reached.add(at);
    const style = getComputedStyle(at);
    const hasOutline = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
    if (!hasOutline && style.boxShadow === "none") wrong.add(`the focus is not visible on ${name(at)}`);
    if (isCovered(at)) wrong.add(`${name(at)} has the focus behind something else`);
  }

  function end() {
    examine();
    document.removeEventListener("keydown", examine, true);
    document.activeElement?.blur();
    const groups = new Set([...reached].map(radioGroup));
    const isReached = (each) => reached.has(each) || (radioGroup(each) && groups.has(radioGroup(each)));
    for (const each of stops) if (each.isConnected && !isReached(each)) wrong.add(`Tab does not reach ${name(each)}`);
    for (const each of document.querySelectorAll("main *")) {
      const isForMice = getComputedStyle(each).cursor === "pointer" && !each.closest(`${CONTROLS}, label`);
      if (isForMice && each.checkVisibility()) wrong.add(`only a mouse reaches ${name(each)}`);
    }
    return [...wrong];
  }

  const stops = [...document.querySelectorAll(CONTROLS)].filter(isStop);
  document.activeElement?.blur();
  document.addEventListener("keydown", examine, true);
  window.endOfTabs = end;
  const dates = stops.filter((each) => each.type === "date").length;
  return stops.length + 3 * dates; // Tab stops at day, month, year and the button of a date
}
