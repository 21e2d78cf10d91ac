// The description of the API: finds operations by what is typed. Without it the page is a plain list of links.
const box = document.getElementById("filter");
const links = [...document.querySelectorAll("[data-find]")];

function filter() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const link of links) link.classList.toggle("none", !words.every((word) => link.dataset.find.includes(word)));
  for (const section of document.querySelectorAll(".side.api details")) section.classList.toggle("none", !section.querySelector("a:not(.none)"));
}

box.hidden = false;
box.addEventListener("input", filter);
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape") box.value = "", filter();
  if (event.key === "Enter") links.find((link) => !link.classList.contains("none"))?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest?.("input") && !event.ctrlKey && !event.metaKey) event.preventDefault(), box.focus();
});
