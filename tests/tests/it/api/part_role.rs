//! Roles on projects, on project grants, and on all projects of an organization: a table states for each what its
//! holder may read and write of a project's objects, in that part and elsewhere.

use futures::future::join_all;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, created, done, post, send},
    eventually,
    instance::Instance,
    tenant::{Tenant, new_name},
};

use self::Fares::*;

const API: &str = "/resources/v3alpha";
const FAR: &str = "2099-01-01T00:00:00Z";

/// The kinds of objects of a project, in the order of creation. The last two belong to the grantee.
const KINDS: [&str; 9] = [
    "projects",
    "apps",
    "apps/keys",
    "roles",
    "project_grants",
    "user_grants",
    "memberships",
    "user_grants of a grant",
    "memberships of a grant",
];

/// What the holder of a role may do with an object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fares {
    /// Read and write it.
    Writes,
    /// Read it; writes are refused.
    Reads,
    /// Read it; it is not found by writes, because it belongs to another organization.
    Shown,
    /// Not found: the role gives the right elsewhere.
    Absent,
    /// Not found by reads; writes are refused.
    Unread,
    /// Everything is refused.
    Nothing,
}

impl Fares {
    /// Returns what the holder may do with an object outside of what the role is held in.
    fn elsewhere(self) -> Self {
        match self {
            Writes => Absent,
            Reads => Unread,
            other => other,
        }
    }

    /// Returns the status and reason of a refusal to read, where it is refused.
    fn read(self) -> Option<(u16, &'static str)> {
        match self {
            Writes | Reads | Shown => None,
            Absent | Unread => Some((404, "RESOURCE_NOT_FOUND")),
            Nothing => Some((403, "PERMISSION_DENIED")),
        }
    }

    fn write(self) -> Option<(u16, &'static str)> {
        match self {
            Writes => None,
            Absent | Shown => Some((404, "RESOURCE_NOT_FOUND")),
            Reads | Unread | Nothing => Some((403, "PERMISSION_DENIED")),
        }
    }
}

/// What a role is held in.
#[derive(Clone, Copy, PartialEq)]
enum HeldIn {
    Project,
    Grant,
    /// The organization, with all of its projects.
    Organization,
}

/// What the holders of each role may do with objects of each kind.
const ROLES: [(&str, HeldIn, [Fares; 9]); 6] = [
    ("PROJECT_OWNER", HeldIn::Project, [Writes, Writes, Writes, Writes, Writes, Writes, Writes, Absent, Absent]),
    ("PROJECT_OWNER_VIEWER", HeldIn::Project, [Reads, Reads, Reads, Reads, Reads, Reads, Reads, Unread, Unread]),
    (
        "PROJECT_OWNER_GLOBAL",
        HeldIn::Organization,
        [Writes, Writes, Writes, Writes, Writes, Writes, Nothing, Absent, Nothing],
    ),
    (
        "PROJECT_OWNER_VIEWER_GLOBAL",
        HeldIn::Organization,
        [Reads, Reads, Reads, Reads, Reads, Reads, Nothing, Unread, Nothing],
    ),
    ("PROJECT_GRANT_OWNER", HeldIn::Grant, [Nothing, Nothing, Nothing, Nothing, Reads, Absent, Absent, Writes, Writes]),
    (
        "PROJECT_GRANT_OWNER_VIEWER",
        HeldIn::Grant,
        [Nothing, Nothing, Nothing, Nothing, Reads, Unread, Unread, Reads, Reads],
    ),
];

/// A project of an organization with an object of each kind, which is granted to another organization.
struct Part {
    organization: String,
    grantee: String,
    /// An organization that it is not granted to.
    beside: String,
    /// The path of each kind, and the id of the object.
    things: Vec<(String, String)>,
}

async fn organization(admin: &Client) -> String {
    created(admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id()
}

async fn user(admin: &Client, organization: &str) -> String {
    let wanted = json!({ "username": new_name(), "service": {} });
    done(admin, &format!("{API}/users?ctx.orgId={organization}"), wanted).await.id()
}

impl Part {
    async fn new(admin: &Client, organization: &str, grantee: &str) -> Self {
        let made = async |path: &str, body: Value| done(admin, &format!("{API}/{path}"), body).await.id();
        let (one, other) = (user(admin, organization).await, user(admin, grantee).await);
        let project = made(&format!("projects?ctx.orgId={organization}"), json!({ "name": new_name() })).await;
        let app = made("apps", json!({ "projectId": project, "name": "Checks", "api": {} })).await;
        let key = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": FAR });
        let key = made(&format!("apps/{app}/keys"), key).await;
        let role = made("roles", json!({ "projectId": project, "key": "a", "displayName": "A" })).await;
        let grant = json!({ "projectId": project, "orgId": grantee, "roleKeys": ["a"] });
        let grant = made("project_grants", grant).await;
        let given = json!({ "projectId": project, "userId": one, "roleKeys": ["a"] });
        let given = made("user_grants", given).await;
        let held = json!({ "projectId": project, "userId": one, "roles": ["PROJECT_OWNER_VIEWER"] });
        let held = made("memberships", held).await;
        let by_grant = json!({ "projectId": project, "projectGrantId": grant, "userId": other, "roleKeys": ["a"] });
        let by_grant = made("user_grants", by_grant).await;
        let in_grant = json!({ "projectGrantId": grant, "userId": other, "roles": ["PROJECT_GRANT_OWNER_VIEWER"] });
        let in_grant = made("memberships", in_grant).await;
        let keys = format!("apps/{app}/keys");
        let ids = [project, app, key, role, grant, given, held, by_grant, in_grant];
        let path = |kind: &str| if kind == "apps/keys" { keys.clone() } else { kind.replace(" of a grant", "") };
        let things = KINDS.iter().zip(ids).map(|(kind, id)| (format!("{API}/{}", path(kind)), id)).collect();
        let beside = self::organization(admin).await;
        Self { organization: organization.to_owned(), grantee: grantee.to_owned(), beside, things }
    }

    fn id(&self, kind: &str) -> &str {
        &self.things[KINDS.iter().position(|known| *known == kind).expect("it is a kind")].1
    }

    /// Creates a user who holds a role in this part, and returns a client, and the id of another user of the same
    /// organization.
    async fn holder(&self, tenant: &Instance, admin: &Client, role: &str, held: HeldIn) -> (String, Client) {
        let home = if held == HeldIn::Grant { &self.grantee } else { &self.organization };
        let name = new_name();
        let wanted = json!({ "username": name, "service": {} });
        let id = done(admin, &format!("{API}/users?ctx.orgId={home}"), wanted).await.id();
        let mut given = json!({ "userId": id, "roles": [role] });
        match held {
            HeldIn::Project => given["projectId"] = json!(self.id("projects")),
            HeldIn::Grant => given["projectGrantId"] = json!(self.id("project_grants")),
            HeldIn::Organization => {}
        }
        let context = if held == HeldIn::Organization { format!("?ctx.orgId={home}") } else { String::new() };
        done(admin, &format!("{API}/memberships{context}"), given).await;
        let client = tenant.log_in(admin, &id, &name).await;
        let search = format!("{API}/project_grants/_search");
        let may = async || (post(&client, &search, json!([])).await.status == StatusCode::OK).then_some(());
        eventually("its role is known", may).await;
        (user(admin, home).await, client)
    }

    /// Returns the body that creates another object of a kind, for a user.
    fn another(&self, kind: &str, user: &str) -> Value {
        let (project, grant) = (self.id("projects"), self.id("project_grants"));
        match kind {
            "projects" => json!({ "name": new_name() }),
            "apps" => json!({ "projectId": project, "name": new_name(), "api": {} }),
            "apps/keys" => json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": FAR }),
            "roles" => json!({ "projectId": project, "key": new_name(), "displayName": "B" }),
            "project_grants" => json!({ "projectId": project, "orgId": self.beside }),
            "user_grants" => json!({ "projectId": project, "userId": user }),
            "memberships" => json!({ "projectId": project, "userId": user, "roles": ["PROJECT_OWNER_VIEWER"] }),
            "user_grants of a grant" => json!({ "projectId": project, "projectGrantId": grant, "userId": user }),
            _ => json!({ "projectGrantId": grant, "userId": user, "roles": ["PROJECT_GRANT_OWNER_VIEWER"] }),
        }
    }
}

/// Returns the body that changes an object of a kind; keys cannot be changed.
fn change(kind: &str) -> Option<Value> {
    match kind {
        "projects" | "apps" => Some(json!({ "name": new_name() })),
        "apps/keys" => None,
        "roles" => Some(json!({ "displayName": "Another" })),
        "memberships" => Some(json!({ "roles": ["PROJECT_OWNER"] })),
        "memberships of a grant" => Some(json!({ "roles": ["PROJECT_GRANT_OWNER"] })),
        _ => Some(json!({ "roleKeys": { "values": [] } })),
    }
}

/// Fails unless an answer is a success, or this refusal.
fn assert_fares(case: &str, answer: &Answer, refusal: Option<(u16, &str)>) {
    match refusal {
        Some((status, reason)) => answer.assert_refused(case, status, reason),
        None => assert!(answer.status.is_success(), "{case}: {}", answer.body),
    }
}

/// The holder of a role, and an administrator who sees everything.
struct Holder<'a> {
    role: &'static str,
    held: HeldIn,
    /// Another user of the same organization.
    colleague: String,
    client: Client,
    admin: &'a Client,
}

impl Holder<'_> {
    async fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.client.request(method.clone(), path).header("prefer", "wait=10");
        send(body.into_iter().fold(request, RequestBuilder::json)).await
    }

    /// Returns the object as the administrator reads it.
    async fn read_as_admin(&self, path: &str) -> (u16, Value) {
        let read = send(self.admin.request(Method::GET, path)).await;
        (read.status.as_u16(), read.body)
    }

    /// Reads an object, and searches it among all.
    async fn reads(&self, case: &str, (path, id): &(String, String), fares: Fares) {
        let read = self.ask(&Method::GET, &format!("{path}/{id}"), None).await;
        assert_fares(&format!("{case} is read"), &read, fares.read());
        let found = self.ask(&Method::POST, &format!("{path}/_search"), Some(&json!([]))).await;
        let is_refused = fares == Nothing;
        assert_fares(&format!("{case} is looked for"), &found, fares.read().filter(|_| is_refused));
        let ids: Vec<&str> = found.body["result"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["details"]["id"].as_str())
            .collect();
        assert_eq!(ids.contains(&id.as_str()), fares.read().is_none(), "{case} is found: {ids:?}");
    }

    /// Changes or removes an object; a refusal must change nothing.
    async fn writes(&self, case: &str, method: Method, path: &str, body: Option<&Value>, fares: Fares) {
        let before = self.read_as_admin(path).await;
        assert_eq!(before.0, 200, "{case}: {}", before.1);
        let written = self.ask(&method, path, body).await;
        assert_fares(&format!("{case}: {method}"), &written, fares.write());
        let is_changed = self.read_as_admin(path).await != before;
        assert_eq!(is_changed, fares.write().is_none(), "{case}: {method}, whether something is another");
        if is_changed && method == Method::DELETE {
            assert_eq!(self.read_as_admin(path).await.0, 404, "{case} is gone");
        }
    }

    /// Creates another object of a kind.
    async fn creates(&self, kind: &str, (part, path): (&Part, &str), refusal: Option<(u16, &str)>) {
        let context = if kind == "projects" { format!("?ctx.orgId={}", part.organization) } else { String::new() };
        let made =
            self.ask(&Method::POST, &format!("{path}{context}"), Some(&part.another(kind, &self.colleague))).await;
        assert_fares(&format!("{}: another of {kind}", self.role), &made, refusal);
        if refusal.is_none() {
            assert_eq!(self.read_as_admin(&format!("{path}/{}", made.id())).await.0, 200, "{}: {kind}", self.role);
        }
    }

    /// Checks all objects of a part.
    async fn goes_through(&self, place: &str, part: &Part, fares: [Fares; 9]) {
        let all = || KINDS.iter().zip(&part.things).zip(fares);
        for ((kind, thing), fares) in all() {
            let case = format!("{}, {place}: {kind}", self.role);
            self.reads(&case, thing, fares).await;
            let path = format!("{}/{}", thing.0, thing.1);
            if let Some(change) = change(kind) {
                self.writes(&case, Method::PATCH, &path, Some(&change), fares).await;
            }
        }
        for ((kind, (path, _)), fares) in all() {
            // To create a project is a permission that nobody has by a role on one.
            let is_beyond = *kind == "projects" && self.held != HeldIn::Organization;
            let refusal = if is_beyond { Some((403, "PERMISSION_DENIED")) } else { fares.write() };
            self.creates(kind, (part, path), refusal).await;
        }
        // The project last, with which everything goes.
        for ((kind, (path, id)), fares) in all().collect::<Vec<_>>().into_iter().rev() {
            let case = format!("{}, {place}: {kind}", self.role);
            self.writes(&case, Method::DELETE, &format!("{path}/{id}"), None, fares).await;
        }
    }
}

#[tokio::test]
async fn a_role_lets_in_where_it_is_held_and_gives_the_right_and_nowhere_else() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    join_all(ROLES.into_iter().map(async |(role, held, fares)| {
        let [home, grantee, foreign, other] = [(); 4].map(|()| organization(&admin));
        let (home, grantee, foreign, other) = tokio::join!(home, grantee, foreign, other);
        let own = Part::new(&admin, &home, &grantee).await;
        let beside = Part::new(&admin, &home, &grantee).await;
        let elsewhere = Part::new(&admin, &foreign, &other).await;
        let (colleague, client) = own.holder(&tenant, &admin, role, held).await;
        let holder = Holder { role, held, colleague, client, admin: &admin };
        let of_others = fares.map(Fares::elsewhere);
        holder.goes_through("in other organizations", &elsewhere, of_others).await;
        let is_of_all = held == HeldIn::Organization;
        holder.goes_through("beside", &beside, if is_of_all { fares } else { of_others }).await;
        holder.goes_through("its own", &own, fares).await;
    }))
    .await;
}

/// A granted project belongs to the grantee's projects, too, as far as users have it.
#[tokio::test]
async fn a_role_on_all_projects_is_one_on_what_is_granted_of_others() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let granted = [
        ("PROJECT_OWNER_GLOBAL", [Absent, Absent, Absent, Absent, Shown, Absent, Nothing, Writes, Nothing]),
        ("PROJECT_OWNER_VIEWER_GLOBAL", [Unread, Unread, Unread, Unread, Reads, Unread, Nothing, Reads, Nothing]),
    ];
    for (role, fares) in granted {
        let [home, maker] = [(); 2].map(|()| organization(&admin));
        let (home, maker) = tokio::join!(home, maker);
        let of_maker = Part::new(&admin, &maker, &home).await;
        let own = Part::new(&admin, &home, &maker).await;
        let (colleague, client) = own.holder(&tenant, &admin, role, HeldIn::Organization).await;
        let holder = Holder { role, held: HeldIn::Organization, colleague, client, admin: &admin };
        holder.goes_through("granted to its own", &of_maker, fares).await;
    }
}
