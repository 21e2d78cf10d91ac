// Runs before the first paint: the reader's choice of light or dark, where there is one.
const choice = localStorage.getItem("theme");
if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
