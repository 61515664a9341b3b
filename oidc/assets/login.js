// Lets people see the password that they type, hides it again before it is sent, and sends nothing twice, be it by a link.
"use strict";
const sent = new Set();
document.addEventListener("submit", (event) => {
  if (sent.has(event.target)) event.preventDefault();
  sent.add(event.target);
});
addEventListener("pageshow", () => sent.clear());
for (const button of document.querySelectorAll("button[data-reveal]")) {
  const input = document.getElementById(button.dataset.reveal);
  const show = (isShown) => {
    input.type = isShown ? "text" : "password";
    button.textContent = isShown ? button.dataset.hide : button.dataset.show;
  };
  button.hidden = false;
  button.addEventListener("click", () => show(input.type === "password"));
  input.form.addEventListener("submit", () => show(false));
}
for (const link of document.querySelectorAll("a[data-seconds]")) {
  const remove = () => link.remove();
  link.addEventListener("click", () => setTimeout(remove));
  setTimeout(remove, link.dataset.seconds * 1000);
}
