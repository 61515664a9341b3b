"use strict";
// Sends the forms of the page. Everything is shown as text, and the token is kept in its field only.
const token = document.getElementById("bearer");

function request(form) {
  const headers = new Headers();
  const query = new URLSearchParams();
  const fields = new URLSearchParams();
  let path = form.dataset.path;
  let body;
  for (const field of form.querySelectorAll("[data-in]")) {
    const value = field.value;
    if (field.dataset.in === "path") {
      path = path.replace(`{${field.name}}`, encodeURIComponent(value));
    } else if (value === "") {
      continue;
    } else if (field.dataset.in === "query") {
      query.append(field.name, value);
    } else if (field.dataset.in === "header") {
      headers.set(field.name, value);
    } else if (field.dataset.in === "form") {
      fields.append(field.name, value);
      body = fields;
    } else {
      headers.set("Content-Type", "application/json");
      body = value;
    }
  }
  if (token.value !== "" && !(body instanceof URLSearchParams)) {
    headers.set("Authorization", `Bearer ${token.value.trim()}`);
  }
  const url = query.size > 0 ? `${path}?${query}` : path;
  return [url, { method: form.dataset.verb, headers, body, credentials: "omit", cache: "no-store" }];
}

function shown(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function send(form) {
  const status = form.querySelector("[role=status]");
  const answer = form.querySelector(".answer");
  status.textContent = "Sending";
  answer.hidden = true;
  try {
    const [url, options] = request(form);
    const began = performance.now();
    const response = await fetch(url, options);
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    const headers = Array.from(response.headers, ([name, value]) => `${name}: ${value}`).join("\n");
    status.textContent = `${options.method} ${url}: ${response.status} in ${took} ms`;
    answer.textContent = `${headers}\n\n${shown(text)}`;
    answer.hidden = false;
    if (response.ok && form.closest("article").id === "token") {
      token.value = JSON.parse(text).access_token;
    }
  } catch (error) {
    status.textContent = `Not sent: ${error.message}`;
  }
}

for (const hidden of document.querySelectorAll("#try, form.try")) {
  hidden.hidden = false;
}
document.addEventListener("submit", (event) => {
  event.preventDefault();
  send(event.target);
});
