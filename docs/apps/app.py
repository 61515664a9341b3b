"""A web app that people log in to by OpenID Connect, with Authlib and Starlette. docs/login.md says how to start it."""

import html
import os
import secrets

import httpx
import uvicorn
from authlib.integrations.starlette_client import OAuth, OAuthError
from joserfc.errors import JoseError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route

PORT = int(os.environ.get("PORT", "3000"))
HOME = f"http://127.0.0.1:{PORT}/"

platform = OAuth().register(
    "platform",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url=os.environ["ISSUER"] + "/.well-known/openid-configuration",
    client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
)
people = {}  # who is logged in, by session: a database in an app that restarts


async def home(request):
    person = people.get(request.session.get("id"))
    if person is None:
        return HTMLResponse('<!doctype html><title>My app</title><a href="/login">Log in</a>')
    name, email = (html.escape(person.get(claim, "")) for claim in ("name", "email"))
    return HTMLResponse(
        f"<!doctype html><title>My app</title><p>You are logged in as {name} ({email}).</p>"
        '<form method="post" action="/logout"><button>Log out</button></form>'
    )


async def login(request):
    try:
        if (await platform.load_server_metadata())["issuer"] != os.environ["ISSUER"]:
            return PlainTextResponse("The login failed: ISSUER is not what the platform calls itself", 400)
        # Authlib draws state, nonce and verifier, and keeps them in the session until the browser is back.
        return await platform.authorize_redirect(request, HOME + "callback")
    except httpx.HTTPError as error:
        return PlainTextResponse(f"The login failed: {error}", 400)


async def callback(request):
    if not {"code", "error"} & request.query_params.keys():
        return PlainTextResponse("The login failed: no code came back", 400)
    try:
        tokens = await platform.authorize_access_token(request)
        person = await platform.userinfo(token=tokens)
    except (OAuthError, JoseError, httpx.HTTPError) as error:
        return PlainTextResponse(f"The login failed: {error}", 400)
    if person["sub"] != tokens["userinfo"]["sub"]:
        return PlainTextResponse("The login failed: userinfo is about somebody else", 400)
    people.pop(request.session.get("id"), None)
    request.session.clear()
    request.session["id"] = secrets.token_urlsafe()
    people[request.session["id"]] = person | {"id_token": tokens["id_token"]}
    return RedirectResponse("/", 303)


async def logout(request):
    person = people.pop(request.session.get("id"), None)
    if person is None:  # a form of another site, which comes without the cookie, ends nothing
        return RedirectResponse("/", 303)
    request.session.clear()
    end = await platform.create_logout_url(HOME, person["id_token"])
    return RedirectResponse(end["url"], 303)


pages = [Route("/", home), Route("/login", login), Route("/callback", callback), Route("/logout", logout, methods=["POST"])]
# The cookie is HttpOnly and SameSite=Lax. Over https, add https_only=True.
session = Middleware(SessionMiddleware, secret_key=secrets.token_urlsafe(), max_age=None)
uvicorn.run(Starlette(routes=pages, middleware=[session]), host="127.0.0.1", port=PORT, access_log=False)
