"""The same with Authlib, unmodified. It names the token endpoint as the audience, which user and app allow."""

import json
import os

from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT, private_key_jwt_sign
from joserfc.jwk import ECKey

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
ISSUER, SCOPE, USER_ID = (os.environ[name] for name in ("ISSUER", "SCOPE", "USER_ID"))
TOKEN, INTROSPECTION = f"{ISSUER}/oauth/v2/token", f"{ISSUER}/oauth/v2/introspect"
REVOCATION = f"{ISSUER}/oauth/v2/revoke"


def signing(client_id, text):
    jwk = json.loads(text)
    kid = jwk["kid"]
    method = "private_key_jwt"
    methods = {"token_endpoint_auth_method": method, "revocation_endpoint_auth_method": method}
    client = OAuth2Client(client_id, ECKey.import_key(jwk), **methods, trust_env=False)
    client.register_client_auth_method(PrivateKeyJWT(TOKEN, headers={"kid": kid}, alg="ES256"))
    return client


def check(what, token, own):
    def ask():
        app = signing(os.environ["APP_ID"], os.environ["APP_JWK"])
        return app.introspect_token(INTROSPECTION, token=token["access_token"]).json()

    told = ask()
    assert own.revoke_token(REVOCATION, token=token["access_token"]).status_code == 200
    words = (told["active"], told.get("sub") == USER_ID, ask()["active"])
    print(what, *(str(word).lower() for word in words))


robot = signing(USER_ID, os.environ["USER_JWK"])
check("private_key_jwt", robot.fetch_token(TOKEN, grant_type="client_credentials", scope=SCOPE), robot)

for method in ("client_secret_basic", "client_secret_post"):
    client = OAuth2Client(
        os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"], token_endpoint_auth_method=method, trust_env=False
    )
    check(method, client.fetch_token(TOKEN, grant_type="client_credentials", scope=SCOPE), client)

jwk = json.loads(os.environ["USER_JWK"])
assertion = private_key_jwt_sign(ECKey.import_key(jwk), USER_ID, ISSUER, alg="ES256", header={"kid": jwk["kid"]})
bare = OAuth2Client(USER_ID, token_endpoint_auth_method="none", trust_env=False)
bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
check("jwt-bearer", bare.fetch_token(TOKEN, grant_type=bearer, assertion=assertion, scope=SCOPE), robot)
