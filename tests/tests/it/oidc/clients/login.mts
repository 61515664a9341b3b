// The login page, which programs play.

const { ISSUER, SESSION_TOKEN, TOKEN } = process.env as Record<string, string>;

// Where the app is answered once somebody has logged in whom it has sent.
export async function loggedIn(url: URL | string) {
  const led = await fetch(url, { redirect: "manual" });
  const request = new URL(led.headers.get("location")!).searchParams.get("authRequest");
  const finished = await fetch(`${ISSUER}/resources/v3alpha/auth_requests/${request}/_finish`, {
    method: "POST",
    headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" },
    body: JSON.stringify({ sessionToken: SESSION_TOKEN }),
  });
  return new URL((await finished.json()).callbackUrl);
}
