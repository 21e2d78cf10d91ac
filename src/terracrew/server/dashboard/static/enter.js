// Sends the form of a link that lets its owner in at once. Without scripts its button does the same.
document.querySelector("form[data-enter]")?.requestSubmit();
