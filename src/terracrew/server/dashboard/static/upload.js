// Uploads a file as soon as it is chosen, and puts the id of what was stored into the form.

const megabytes = (bytes) => `${(bytes / 1048576).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
let current; // the upload that is under way

document.addEventListener("change", (event) => {
  if (event.target.matches("input[type=file][data-upload]")) upload(event.target);
});

function upload(field) {
  const box = field.closest(".field");
  const form = field.form;
  const [bar, wrong, said] = ["progress", "[data-upload-wrong]", "[data-upload-said]"].map((each) => box.querySelector(each));
  const file = field.files[0];
  current?.abort();
  form.elements.archive.value = form.elements.archive_name.value = wrong.textContent = said.textContent = "";
  if (!file) return;
  if (file.size > Number(field.dataset.maxBytes)) {
    wrong.textContent = `${file.name} has ${megabytes(file.size)}, and at most ${megabytes(field.dataset.maxBytes)} are accepted.`;
    return;
  }
  const sent = (current = new XMLHttpRequest());
  const show = (isBusy) => {
    bar.hidden = !isBusy;
    form.querySelector("[type=submit]").disabled = isBusy;
  };
  sent.upload.onprogress = ({ loaded, total }) => {
    bar.value = (100 * loaded) / total;
    said.textContent = loaded < total ? `Uploading ${file.name}…` : `Checking ${file.name}…`;
  };
  sent.onload = () => {
    const answer = parsed(sent.responseText);
    if (sent.status < 300 && answer?.id) {
      form.elements.archive.value = answer.id;
      form.elements.archive_name.value = file.name;
      said.textContent = `${file.name} is uploaded (${megabytes(file.size)}).`;
    } else wrong.textContent = `${file.name} was not accepted: ${answer?.detail ?? `the server answered ${sent.status}`}`;
  };
  sent.onerror = () => (wrong.textContent = `The upload of ${file.name} broke off. Choose it again.`);
  sent.onloadend = () => current === sent && show(false);
  sent.open("POST", field.dataset.upload);
  sent.setRequestHeader("X-CSRF-Token", form.elements._csrf.value);
  sent.setRequestHeader("Content-Type", "application/gzip");
  show(true);
  sent.send(file);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
