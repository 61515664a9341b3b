// What Auth.js does where people log in, unmodified: a web app with a secret, whose own sign-in, callback and session it serves.

import { Auth, setEnvDefaults } from "@auth/core";
import { loggedIn } from "./login.mts";

const { ISSUER, APP_ID, APP_SECRET, USER_ID, CALLBACK } = process.env as Record<string, string>;

const config = {
  basePath: new URL(CALLBACK).pathname.replace(/\/callback\/.*$/, ""),
  trustHost: true,
  secret: "a secret of the app, which its own cookies are sealed with",
  providers: [
    { id: "platform", name: "Platform", type: "oidc", issuer: ISSUER, clientId: APP_ID, clientSecret: APP_SECRET, checks: ["pkce", "state", "nonce"] },
  ],
  callbacks: {
    jwt: ({ token, profile }) => ({ ...token, ...(profile && { subject: profile.sub }) }),
    session: ({ session, token }) => ({ ...session, subject: token.subject }),
  },
} satisfies Parameters<typeof Auth>[1];
setEnvDefaults({}, config);

// A browser that keeps the cookies of the app.
const cookies = new Map<string, string>();
async function visit(url: string, body?: URLSearchParams) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const method = body ? "POST" : "GET";
  const answer = await Auth(new Request(url, { method, body, headers: { cookie } }), config);
  for (const line of answer.headers.getSetCookie()) {
    const [name, value] = line.split(";")[0].split(/=(.*)/s);
    cookies.set(name, value);
  }
  return answer;
}

const app = CALLBACK.replace(/\/callback\/.*$/, "");
const { csrfToken } = await (await visit(`${app}/csrf`)).json();
const sent = await visit(`${app}/signin/platform`, new URLSearchParams({ csrfToken, callbackUrl: new URL(app).origin }));
const callback = await loggedIn(sent.headers.get("location")!);
const back = await visit(callback.href);
const session = await (await visit(`${app}/session`)).json();
console.log(session.subject === USER_ID, session.user.name, session.user.email, back.headers.get("location") === new URL(app).origin);
