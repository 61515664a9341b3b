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

// Logging in, by a code and with PKCE (RFC 7636), as the app of the platform's own pages.
const client = "urn:platform:app:pages";
const told = document.getElementById("logged-in");

function encoded(bytes) {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function random() {
  return encoded(crypto.getRandomValues(new Uint8Array(32)));
}

async function authorize() {
  if (!isSecureContext) {
    throw new Error("people log in over https only, or on this machine");
  }
  const answer = await fetch("/.well-known/openid-configuration", { credentials: "omit" });
  if (!answer.ok) {
    throw new Error(`the platform answers ${answer.status} to /.well-known/openid-configuration`);
  }
  const { issuer, authorization_endpoint } = await answer.json();
  if (issuer !== location.origin) {
    told.textContent = `Log in at ${issuer}/docs: the platform is not known by the name of this page.`;
    return;
  }
  const [state, verifier] = [random(), random()];
  sessionStorage.setItem("authorize", JSON.stringify({ state, verifier, hash: location.hash }));
  const challenge = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const asked = new URLSearchParams({
    client_id: client,
    response_type: "code",
    scope: "openid",
    redirect_uri: `${issuer}/docs`,
    state,
    code_challenge: encoded(challenge),
    code_challenge_method: "S256",
  });
  location.assign(`${authorization_endpoint}?${asked}`);
}

// Takes up what the platform has answered, where this page has asked for it.
async function authorized() {
  const answered = new URLSearchParams(location.search);
  const asked = JSON.parse(sessionStorage.getItem("authorize"));
  sessionStorage.removeItem("authorize");
  if (!answered.has("state")) {
    return;
  }
  history.replaceState(null, "", `/docs${asked?.hash ?? ""}`);
  if (asked === null || asked.state !== answered.get("state") || answered.get("iss") !== location.origin) {
    throw new Error("this page has not asked for it");
  }
  if (answered.has("error")) {
    throw new Error(answered.get("error_description") ?? answered.get("error"));
  }
  const body = new URLSearchParams({
    grant_type: "authorization_code",
    client_id: client,
    code: answered.get("code"),
    redirect_uri: `${location.origin}/docs`,
    code_verifier: asked.verifier,
  });
  const answer = await fetch("/oauth/v2/token", { method: "POST", body, credentials: "omit", cache: "no-store" });
  const got = await answer.json();
  if (!answer.ok) {
    throw new Error(got.error_description ?? got.error);
  }
  token.value = got.access_token;
  told.textContent = "Authorized: requests have your token now.";
}

function unauthorized(error) {
  told.textContent = `Not authorized: ${error.message}`;
}

document.getElementById("log-in").addEventListener("click", () => authorize().catch(unauthorized));
authorized().catch(unauthorized);

for (const hidden of document.querySelectorAll("#try, form.try")) {
  hidden.hidden = false;
}
document.addEventListener("submit", (event) => {
  event.preventDefault();
  send(event.target);
});
