// Sends the chosen state as it is when the form is submitted, and goes back to the module when it was accepted.

const form = document.querySelector("[data-import]");
const [bar, wrong, said] = ["progress", "[data-import-wrong]", "[data-import-said]"].map((each) => form.querySelector(each));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const file = form.elements.state.files[0];
  wrong.textContent = "";
  if (!file) return;
  if (file.size > Number(form.dataset.maxBytes)) return void (wrong.textContent = `${file.name} is larger than a state may be.`);
  const sent = new XMLHttpRequest();
  const busy = (is) => ((bar.hidden = !is), (form.querySelector("[type=submit]").disabled = is));
  sent.upload.onprogress = ({ loaded, total }) => {
    bar.value = (100 * loaded) / total;
    said.textContent = `Uploading ${file.name}…`;
  };
  sent.onload = () => {
    if (sent.status < 300) return location.assign(form.dataset.then);
    wrong.textContent = `${file.name} was not accepted: ${detail(sent)}`;
    said.textContent = "";
  };
  sent.onerror = () => (wrong.textContent = `The upload of ${file.name} broke off. Try again.`);
  sent.onloadend = () => busy(false);
  sent.open("POST", form.dataset.import + (form.elements.force?.checked ? "?force=true" : ""));
  sent.setRequestHeader("X-CSRF-Token", form.elements._csrf.value);
  sent.setRequestHeader("Content-Type", "application/json");
  busy(true);
  sent.send(file);
});

function detail(sent) {
  if (sent.status === 413) return "it is too large for a request here. The command line sends it in parts.";
  try {
    return JSON.parse(sent.responseText).detail;
  } catch {
    return `the server answered ${sent.status}`;
  }
}
