"""What Authlib does where people log in, unmodified: a web app with a secret. The login page is played by this program."""

import os

import httpx
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.jwk import KeySet

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
NAMES = ("ISSUER", "APP_ID", "APP_SECRET", "USER_ID", "CALLBACK", "SESSION_TOKEN", "TOKEN")
ISSUER, APP_ID, APP_SECRET, USER_ID, CALLBACK, SESSION_TOKEN, TOKEN = (os.environ[name] for name in NAMES)


def logged_in(url):
    with httpx.Client(trust_env=False) as browser:
        request = httpx.URL(browser.get(url).headers["location"]).params["authRequest"]
        finish = f"{ISSUER}/resources/v3alpha/auth_requests/{request}/_finish"
        headers = {"authorization": f"Bearer {TOKEN}"}
        return browser.post(finish, headers=headers, json={"sessionToken": SESSION_TOKEN}).json()["callbackUrl"]


with httpx.Client(trust_env=False) as http:
    about = http.get(f"{ISSUER}/.well-known/openid-configuration").json()
    keys = KeySet.import_key_set(http.get(about["jwks_uri"]).json())

app = OAuth2Client(
    APP_ID,
    APP_SECRET,
    scope="openid profile offline_access",
    redirect_uri=CALLBACK,
    token_endpoint_auth_method=os.environ["AUTH_METHOD"],
    code_challenge_method="S256",
    trust_env=False,
)
verifier, nonce = "v" * 64, "n-0S6_WzA2Mj"
url, state = app.create_authorization_url(about["authorization_endpoint"], code_verifier=verifier, nonce=nonce)
answer = logged_in(url)
tokens = app.fetch_token(about["token_endpoint"], authorization_response=answer, code_verifier=verifier, state=state)
decoded = jwt.decode(tokens["id_token"], keys, algorithms=["RS256"])
options = {"iss": {"value": ISSUER}, "aud": {"value": APP_ID}}
claims = CodeIDToken(decoded.claims, decoded.header, options, {"nonce": nonce, "client_id": APP_ID})
claims.validate()
info = app.get(about["userinfo_endpoint"]).json()
refreshed = app.refresh_token(about["token_endpoint"])
is_new = refreshed["refresh_token"] != tokens["refresh_token"]
words = (claims["sub"] == USER_ID, info["family_name"], refreshed["token_type"], is_new)
print(*(str(word) for word in words))
