// What oauth4webapi does where people log in, unmodified: an app in a browser, which has no secret and proves its requests by PKCE alone.

import * as oauth from "oauth4webapi";
import { loggedIn } from "./login.mts";

const { ISSUER, APP_ID, USER_ID, CALLBACK } = process.env as Record<string, string>;
const insecure = { [oauth.allowInsecureRequests]: true };

const issuer = new URL(ISSUER);
const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, insecure));
const [app, auth] = [{ client_id: APP_ID }, oauth.None()];
const [verifier, state, nonce] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState(), oauth.generateRandomNonce()];
const asked = new URL(server.authorization_endpoint!);
const parameters = {
  client_id: APP_ID,
  redirect_uri: CALLBACK,
  response_type: "code",
  scope: "openid profile offline_access",
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
  state,
  nonce,
  max_age: "600",
};
asked.search = new URLSearchParams(parameters).toString();

const answered = oauth.validateAuthResponse(server, app, await loggedIn(asked), state);
const redeemed = await oauth.authorizationCodeGrantRequest(server, app, auth, answered, CALLBACK, verifier, insecure);
const expected = { expectedNonce: nonce, maxAge: 600, requireIdToken: true };
const tokens = await oauth.processAuthorizationCodeResponse(server, app, redeemed, expected);
await oauth.validateApplicationLevelSignature(server, redeemed, insecure);
const { sub } = oauth.getValidatedIdTokenClaims(tokens)!;
const looked = await oauth.userInfoRequest(server, app, tokens.access_token, insecure);
const info = await oauth.processUserInfoResponse(server, app, sub, looked);
const asksAgain = await oauth.refreshTokenGrantRequest(server, app, auth, tokens.refresh_token!, insecure);
const refreshed = await oauth.processRefreshTokenResponse(server, app, asksAgain);
console.log(sub === USER_ID, info.family_name, refreshed.token_type, refreshed.refresh_token !== tokens.refresh_token);

const again = await oauth.authorizationCodeGrantRequest(server, app, auth, answered, CALLBACK, verifier, insecure);
const refused = await oauth.processAuthorizationCodeResponse(server, app, again, expected).then(
  () => "redeemed",
  (error) => error.error,
);
console.log("twice:", refused);
