// The same with oauth4webapi, unmodified.

import { randomUUID, webcrypto } from "node:crypto";
import { SignJWT } from "jose";
import * as oauth from "oauth4webapi";

const { ISSUER, USER_ID, USER_JWK, APP_ID, APP_JWK, CLIENT_ID, CLIENT_SECRET, SCOPE } = process.env as Record<string, string>;
const insecure = { [oauth.allowInsecureRequests]: true };

async function imported(text: string) {
  const jwk = JSON.parse(text);
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  return { key: (await webcrypto.subtle.importKey("jwk", jwk, algorithm, false, ["sign"])) as CryptoKey, kid: jwk.kid };
}

async function signing(text: string) {
  return oauth.PrivateKeyJwt(await imported(text));
}

const issuer = new URL(ISSUER);
const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, insecure));
const app = { client_id: APP_ID };

async function check(what: string, token: string, user: oauth.Client, auth: oauth.ClientAuth) {
  const looked = oauth.introspectionRequest(server, app, await signing(APP_JWK), token, insecure);
  const told = await oauth.processIntrospectionResponse(server, app, await looked);
  await oauth.processRevocationResponse(await oauth.revocationRequest(server, user, auth, token, insecure));
  const asks = oauth.introspectionRequest(server, app, await signing(APP_JWK), token, insecure);
  const { active } = await oauth.processIntrospectionResponse(server, app, await asks);
  console.log(what, told.active, told.sub === USER_ID, active);
}

async function granted(what: string, id: string, auth: oauth.ClientAuth) {
  const user = { client_id: id };
  const asked = oauth.clientCredentialsGrantRequest(server, user, auth, new URLSearchParams({ scope: SCOPE }), insecure);
  await check(what, (await oauth.processClientCredentialsResponse(server, user, await asked)).access_token, user, auth);
}

await granted("private_key_jwt", USER_ID, await signing(USER_JWK));
await granted("client_secret_basic", CLIENT_ID, oauth.ClientSecretBasic(CLIENT_SECRET));
await granted("client_secret_post", CLIENT_ID, oauth.ClientSecretPost(CLIENT_SECRET));

const [robot, user] = [await imported(USER_JWK), { client_id: USER_ID }];
const assertion = await new SignJWT({})
  .setProtectedHeader({ alg: "ES256", kid: robot.kid })
  .setIssuer(USER_ID).setSubject(USER_ID).setAudience(ISSUER)
  .setIssuedAt().setExpirationTime("5m").setJti(randomUUID())
  .sign(robot.key);
const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const sent = { assertion, scope: SCOPE };
const asked = oauth.genericTokenEndpointRequest(server, user, oauth.None(), bearer, sent, insecure);
const { access_token } = await oauth.processGenericTokenEndpointResponse(server, user, await asked);
await check("jwt-bearer", access_token, user, await signing(USER_JWK));
