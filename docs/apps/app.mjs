// A web app that people log in to by OpenID Connect, with openid-client. docs/login.md says how to start it.

import { createServer } from "node:http";
import * as oidc from "openid-client";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, PORT = "3000" } = process.env;
const HOME = `http://127.0.0.1:${PORT}/`;
for (const [name, value] of Object.entries({ ISSUER, CLIENT_ID, CLIENT_SECRET })) if (!value) throw new Error(`${name} is not set`);
const COOKIE = "Path=/; HttpOnly; SameSite=Lax"; // over https also Secure, and names that begin with __Host-

// openid-client refuses an issuer without https, which is only for trying it out, unless it is told otherwise.
const insecure = { execute: ISSUER.startsWith("http:") ? [oidc.allowInsecureRequests] : [] };
const secret = oidc.ClientSecretBasic(CLIENT_SECRET);
const platform = await oidc.discovery(new URL(ISSUER), CLIENT_ID, {}, secret, insecure);
const people = new Map(); // who is logged in, by session: a database in an app that restarts

const escaped = (text = "") => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
const cookie = ({ headers }, name) => headers.cookie?.match(`(?:^|; )${name}=([^;]*)`)?.[1] ?? "";
const redirect = (to, ...cookies) => ({ status: 303, headers: { location: `${to}`, "set-cookie": cookies } });
const page = (body) => ({ headers: { "content-type": "text/html; charset=utf-8" }, body: `<!doctype html><title>My app</title>${body}` });

const pages = {
  "GET /": (request) => {
    const person = people.get(cookie(request, "session"));
    if (!person) return page('<a href="/login">Log in</a>');
    return page(`<p>You are logged in as ${escaped(person.name)} (${escaped(person.email)}).</p>
      <form method="post" action="/logout"><button>Log out</button></form>`);
  },
  "GET /login": async () => {
    const [state, nonce, verifier] = [oidc.randomState(), oidc.randomNonce(), oidc.randomPKCECodeVerifier()];
    const url = oidc.buildAuthorizationUrl(platform, {
      redirect_uri: `${HOME}callback`, scope: "openid profile email", state, nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
    });
    return redirect(url, `login=${state}.${nonce}.${verifier}; ${COOKIE}; Max-Age=3600`);
  },
  "GET /callback": async (request, url) => {
    const [expectedState, expectedNonce, pkceCodeVerifier] = cookie(request, "login").split(".");
    if (!pkceCodeVerifier) throw new Error("this browser has not begun one");
    const tokens = await oidc.authorizationCodeGrant(platform, url, { expectedState, expectedNonce, pkceCodeVerifier });
    const person = await oidc.fetchUserInfo(platform, tokens.access_token, tokens.claims().sub);
    const session = oidc.randomState();
    people.delete(cookie(request, "session"));
    people.set(session, { ...person, idToken: tokens.id_token });
    return redirect("/", `session=${session}; ${COOKIE}`, `login=; ${COOKIE}; Max-Age=0`);
  },
  "POST /logout": (request) => {
    const session = cookie(request, "session");
    const person = people.get(session);
    if (!person) return redirect("/"); // a form of another site, which comes without the cookie, ends nothing
    people.delete(session);
    const asked = { id_token_hint: person.idToken, post_logout_redirect_uri: HOME };
    return redirect(oidc.buildEndSessionUrl(platform, asked), `session=; ${COOKIE}; Max-Age=0`);
  },
};

createServer(async (request, response) => {
  try {
    const url = new URL(request.url, HOME);
    const found = pages[`${request.method} ${url.pathname}`] ?? (() => ({ status: 404, body: "There is nothing here." }));
    const { status = 200, headers, body } = await found(request, url);
    response.writeHead(status, headers).end(body);
  } catch (error) {
    // What the platform says comes before what the library makes of it.
    const told = error.error ? `${error.error}: ${error.error_description}` : error.cause?.message ?? error.message;
    response.writeHead(400, { "content-type": "text/plain; charset=utf-8" }).end(`The login failed: ${told}`);
  }
}).listen(PORT, "127.0.0.1");
