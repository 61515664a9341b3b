// What openid-client does for machines, unmodified: it signs, exchanges, asks what tokens are worth, and ends them.

import { randomUUID, webcrypto } from "node:crypto";
import { SignJWT } from "jose";
import * as client from "openid-client";

const { ISSUER, USER_ID, USER_JWK, APP_ID, APP_JWK, CLIENT_ID, CLIENT_SECRET, SCOPE } = process.env as Record<string, string>;

async function imported(text: string) {
  const jwk = JSON.parse(text);
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  return { key: (await webcrypto.subtle.importKey("jwk", jwk, algorithm, false, ["sign"])) as CryptoKey, kid: jwk.kid };
}

async function discovered(id: string, auth: client.ClientAuth) {
  return client.discovery(new URL(ISSUER), id, {}, auth, { execute: [client.allowInsecureRequests] });
}

const [robot, app] = [await imported(USER_JWK), await imported(APP_JWK)];
const checker = await discovered(APP_ID, client.PrivateKeyJwt(app));

async function check(what: string, token: string, own: client.Configuration) {
  const told = await client.tokenIntrospection(checker, token);
  await client.tokenRevocation(own, token);
  const { active } = await client.tokenIntrospection(checker, token);
  console.log(what, told.active, told.sub === USER_ID, active);
}

const signs = await discovered(USER_ID, client.PrivateKeyJwt(robot));
await check("private_key_jwt", (await client.clientCredentialsGrant(signs, { scope: SCOPE })).access_token, signs);

for (const [what, auth] of [
  ["client_secret_basic", client.ClientSecretBasic(CLIENT_SECRET)],
  ["client_secret_post", client.ClientSecretPost(CLIENT_SECRET)],
] as const) {
  const own = await discovered(CLIENT_ID, auth);
  await check(what, (await client.clientCredentialsGrant(own, { scope: SCOPE })).access_token, own);
}

const assertion = await new SignJWT({})
  .setProtectedHeader({ alg: "ES256", kid: robot.kid })
  .setIssuer(USER_ID).setSubject(USER_ID).setAudience(ISSUER)
  .setIssuedAt().setExpirationTime("5m").setJti(randomUUID())
  .sign(robot.key);
const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const bare = await discovered(USER_ID, client.None());
await check("jwt-bearer", (await client.genericGrantRequest(bare, bearer, { assertion, scope: SCOPE })).access_token, signs);
