// The same with oauth4webapi, unmodified.

import { webcrypto } from "node:crypto";
import * as oauth from "oauth4webapi";

const { ISSUER, USER_ID, USER_JWK, APP_ID, APP_JWK, CLIENT_ID, CLIENT_SECRET, SCOPE } = process.env as Record<string, string>;
const insecure = { [oauth.allowInsecureRequests]: true };

async function signing(text: string) {
  const jwk = JSON.parse(text);
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const key = (await webcrypto.subtle.importKey("jwk", jwk, algorithm, false, ["sign"])) as CryptoKey;
  return oauth.PrivateKeyJwt({ key, kid: jwk.kid });
}

const issuer = new URL(ISSUER);
const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, insecure));
const app = { client_id: APP_ID };

async function granted(what: string, id: string, auth: oauth.ClientAuth) {
  const user = { client_id: id };
  const asked = oauth.clientCredentialsGrantRequest(server, user, auth, new URLSearchParams({ scope: SCOPE }), insecure);
  const { access_token } = await oauth.processClientCredentialsResponse(server, user, await asked);
  const looked = oauth.introspectionRequest(server, app, await signing(APP_JWK), access_token, insecure);
  const told = await oauth.processIntrospectionResponse(server, app, await looked);
  await oauth.processRevocationResponse(await oauth.revocationRequest(server, user, auth, access_token, insecure));
  const asks = oauth.introspectionRequest(server, app, await signing(APP_JWK), access_token, insecure);
  const { active } = await oauth.processIntrospectionResponse(server, app, await asks);
  console.log(what, told.active, told.sub === USER_ID, active);
}

await granted("private_key_jwt", USER_ID, await signing(USER_JWK));
await granted("client_secret_basic", CLIENT_ID, oauth.ClientSecretBasic(CLIENT_SECRET));
await granted("client_secret_post", CLIENT_ID, oauth.ClientSecretPost(CLIENT_SECRET));
