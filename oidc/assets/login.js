// Lets people see the password that they type, and hides it again before it is sent.
"use strict";
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
