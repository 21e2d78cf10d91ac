// Unfolds and folds all resources of a plan or of two states at once.

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-fold]");
  if (!button) return;
  const all = [...button.closest(".changes").querySelectorAll("details.rc")];
  const open = all.some((each) => !each.open);
  for (const each of all) each.open = open;
  button.textContent = open ? "Collapse all" : "Expand all";
});
