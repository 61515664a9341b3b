// What openid-client does where people log in, unmodified: it signs what it asks for, redeems the code, reads who it is, refreshes and
// signs out.

import { webcrypto } from "node:crypto";
import * as client from "openid-client";
import { loggedIn } from "./login.mts";

const { ISSUER, APP_ID, APP_JWK, USER_ID, CALLBACK, BYE } = process.env as Record<string, string>;

const jwk = JSON.parse(APP_JWK);
const algorithm = { name: "ECDSA", namedCurve: "P-256" };
const key = (await webcrypto.subtle.importKey("jwk", jwk, algorithm, false, ["sign"])) as CryptoKey;
const signs = { key, kid: jwk.kid };
const options = { execute: [client.allowInsecureRequests] };
const config = await client.discovery(new URL(ISSUER), APP_ID, {}, client.PrivateKeyJwt(signs), options);

for (const build of [client.buildAuthorizationUrl, client.buildAuthorizationUrlWithJAR] as const) {
  const [pkceCodeVerifier, expectedState, expectedNonce] =
    [client.randomPKCECodeVerifier(), client.randomState(), client.randomNonce()];
  const asked = {
    redirect_uri: CALLBACK,
    scope: "openid profile offline_access",
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256",
    state: expectedState,
    nonce: expectedNonce,
    max_age: "600",
  };
  const callback = await loggedIn(await build(config, asked, signs));
  const checks = { pkceCodeVerifier, expectedState, expectedNonce, maxAge: 600, idTokenExpected: true };
  const tokens = await client.authorizationCodeGrant(config, callback, checks);
  const { sub, sid } = tokens.claims()!;
  const info = await client.fetchUserInfo(config, tokens.access_token, sub);
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token!);
  const again = await client.fetchUserInfo(config, refreshed.access_token, sub);
  console.log(build.name, sub === USER_ID, info.family_name, again.given_name, refreshed.claims()!.sid === sid);
  await client.tokenRevocation(config, refreshed.refresh_token!);
  const ended = await client.fetchUserInfo(config, refreshed.access_token, sub).then(() => "lives", () => "ended");
  console.log("revoked", ended);
  const parameters = { id_token_hint: refreshed.id_token ?? tokens.id_token!, post_logout_redirect_uri: BYE, state: "a b" };
  if (build === client.buildAuthorizationUrlWithJAR) {
    const out = await fetch(client.buildEndSessionUrl(config, parameters), { redirect: "manual" });
    console.log("signed out", out.headers.get("location"));
  }
}
