//! Random grants, removals and changes of roles compared with a model that follows the documents and knows no events:
//! tokens, and introspection of them, must have the roles of the model. A seed determines a run.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, done, send},
    eventually,
    tenant::Tenant,
};
use tokio::time::{Duration, Instant};

use super::{
    shop::{API, ROLES},
    token::parts,
};

/// How many changes are made, and how many between two comparisons of everything.
const STEPS: usize = 45;
const STEPS_A_LOOK: usize = 9;
/// The time after which a cache answers nothing that has changed.
const FORGOTTEN: Duration = Duration::from_millis(1200);
/// The keys of roles, the same in both projects.
const KEYS: [&str; 4] = ["admin", "clerk", "guest", "owner"];
/// How many organizations there are, each with a user.
const ORGANIZATIONS: usize = 3;
/// For each project the index of its organization.
const OWNERS: [usize; 2] = [0, 1];

type Keys = BTreeSet<&'static str>;

/// An object that exists or not, named by indexes. An object comes after those that it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Organization(usize),
    Project(usize),
    /// The user of the organization with the same index.
    User(usize),
    /// A role, by its project and its key.
    Role(usize, &'static str),
    /// The project, and the organization that it is granted to.
    ProjectGrant(usize, usize),
    /// The user, the project, and the organization that gives by its project grant.
    UserGrant(usize, usize, Option<usize>),
}

impl Item {
    fn any(random: &mut fastrand::Rng) -> Self {
        let (organization, project) = (random.usize(..ORGANIZATIONS), random.usize(..OWNERS.len()));
        match random.u8(..40) {
            0 if random.bool() => Self::Organization(organization),
            0 => Self::Project(project),
            1 => Self::User(organization),
            2..7 => Self::Role(project, KEYS[random.usize(..KEYS.len())]),
            7..15 => Self::ProjectGrant(project, organization),
            _ => Self::UserGrant(random.usize(..ORGANIZATIONS), project, random.bool().then_some(organization)),
        }
    }

    fn fixed() -> impl Iterator<Item = Self> {
        let organizations = (0..ORGANIZATIONS).map(Self::Organization);
        organizations.chain((0..OWNERS.len()).map(Self::Project)).chain((0..ORGANIZATIONS).map(Self::User))
    }

    fn is_fixed(self) -> bool {
        self < Self::Role(0, "")
    }

    /// Returns the items without which it does not exist, and which must be active for it to count.
    fn stands_on(self) -> Vec<Self> {
        match self {
            Self::Organization(_) => vec![],
            Self::Project(project) => vec![Self::Organization(OWNERS[project])],
            Self::User(user) => vec![Self::Organization(user)],
            Self::Role(project, _) => vec![Self::Project(project)],
            Self::ProjectGrant(project, organization) => vec![Self::Project(project), Self::Organization(organization)],
            Self::UserGrant(user, project, by) => {
                let by = by.map(|organization| Self::ProjectGrant(project, organization));
                [Self::User(user), Self::Project(project)].into_iter().chain(by).collect()
            }
        }
    }

    fn collection(self) -> &'static str {
        match self {
            Self::Organization(_) => "organizations",
            Self::Project(_) => "projects",
            Self::User(_) => "users",
            Self::Role(..) => "roles",
            Self::ProjectGrant(..) => "project_grants",
            Self::UserGrant(..) => "user_grants",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Add,
    /// Gives a grant other roles, and a role another display name.
    Change,
    Switch(bool),
    Remove,
}

/// A request to the platform. Only grants have keys.
#[derive(Debug)]
struct Step {
    verb: Verb,
    item: Item,
    keys: Keys,
}

impl Step {
    fn add(item: Item, keys: &[&'static str]) -> Self {
        Self { verb: Verb::Add, item, keys: keys.iter().copied().collect() }
    }

    fn any(random: &mut fastrand::Rng) -> Self {
        let item = Item::any(random);
        let verb = match random.u8(..28) {
            10..15 if !item.is_fixed() => Verb::Change,
            15..26 if !matches!(item, Item::Role(..)) => Verb::Switch(random.u8(..10) < 7),
            26.. => Verb::Remove,
            _ => Verb::Add,
        };
        let is_grant = item > Item::Role(OWNERS.len(), "");
        let has_keys = is_grant && matches!(verb, Verb::Add | Verb::Change);
        Self { verb, item, keys: KEYS.into_iter().filter(|_| has_keys && random.bool()).collect() }
    }
}

#[derive(Default)]
struct Model {
    /// The existing items, with the roles of grants.
    there: BTreeMap<Item, Keys>,
    off: BTreeSet<Item>,
}

impl Model {
    fn is_there(&self, item: Item) -> bool {
        self.there.contains_key(&item)
    }

    /// Whether an item exists and is active, with everything that it depends on.
    fn counts(&self, item: Item) -> bool {
        let is_on = self.is_there(item) && !self.off.contains(&item);
        is_on && item.stands_on().into_iter().all(|other| self.counts(other))
    }

    /// Whether a grant can have a role.
    fn can_have(&self, item: Item, key: &'static str) -> bool {
        match item {
            Item::UserGrant(_, project, Some(organization)) => {
                let by = self.there.get(&Item::ProjectGrant(project, organization));
                by.is_some_and(|roles| roles.contains(key))
            }
            Item::ProjectGrant(project, _) | Item::UserGrant(_, project, _) => self.is_there(Item::Role(project, key)),
            _ => false,
        }
    }

    /// Draws a random step, which is mostly one that is not refused.
    fn draw(&self, random: &mut fastrand::Rng) -> Step {
        let is_allowed = random.u8(..10) > 0;
        // A second one of the same name would be another one.
        let can_be_made = |item: Item| !self.is_there(item) && item.stands_on().iter().all(|on| self.counts(*on));
        // Most of the rest stands on these.
        if let Some(item) = Item::fixed().find(|item| can_be_made(*item)).filter(|_| random.bool()) {
            return Step::add(item, &[]);
        }
        loop {
            let step = Step::any(random);
            let is_clear = step.verb != Verb::Add || !step.item.is_fixed() || can_be_made(step.item);
            if is_clear && self.refusals(&step).is_empty() == is_allowed {
                return step;
            }
        }
    }

    /// Returns the statuses by which a step may be refused; none where it is not.
    fn refusals(&self, &Step { verb, item, ref keys }: &Step) -> Vec<u16> {
        let is_new = verb == Verb::Add;
        let lacks = |other| !self.is_there(other);
        let is_own = matches!(item, Item::ProjectGrant(project, owner) if OWNERS[project] == owner);
        let cannot_have = keys.iter().any(|&key| !self.can_have(item, key));
        let reasons = [
            (is_new && self.is_there(item), 409),
            (if is_new { item.stands_on().into_iter().any(lacks) } else { lacks(item) }, 404),
            (is_new && is_own || cannot_have, 400),
            (self.is_there(item) && verb == Verb::Switch(!self.off.contains(&item)), 400),
            // Which it is says whether the caller is told of the role.
            (cannot_have, 404),
        ];
        reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, status)| status).collect()
    }

    /// Applies a step that is not refused, with all its consequences.
    fn take(&mut self, Step { verb, item, keys }: Step) {
        match verb {
            Verb::Add | Verb::Change => self.there.extend([(item, keys)]),
            Verb::Switch(true) => self.off.retain(|off| *off != item),
            Verb::Switch(false) => self.off.extend([item]),
            Verb::Remove => self.there.retain(|there, _| *there != item),
        }
        for item in self.there.keys().copied().collect::<Vec<_>>() {
            if !item.stands_on().into_iter().all(|other| self.is_there(other)) {
                self.there.remove(&item);
            }
            // What was taken does not come back by itself.
            let can: Keys = KEYS.into_iter().filter(|&key| self.can_have(item, key)).collect();
            self.there.entry(item).and_modify(|roles| roles.retain(|key| can.contains(key)));
        }
        self.off.retain(|item| self.there.contains_key(item));
    }
}

struct World {
    admin: Client,
    /// The domain in claims of organizations, which have none of their own.
    host: String,
    model: Model,
    /// The id of each item, or the last one that it had.
    ids: BTreeMap<Item, String>,
    /// The client ids and secrets of users and of the apps of projects.
    clients: BTreeMap<Item, (String, String)>,
}

impl World {
    /// Returns the id of an item, or one that nothing has.
    fn id(&self, item: Item) -> &str {
        self.ids.get(&item).map_or("1", String::as_str)
    }

    /// Sends a step, which succeeds or is refused as in the model.
    async fn take(&mut self, step: Step) {
        println!("{step:?}");
        let refusals = self.model.refusals(&step);
        let answer = send(self.request(&step)).await;
        if !refusals.is_empty() {
            assert!(refusals.contains(&answer.status.as_u16()), "one of {refusals:?} was expected: {answer:?}");
            return;
        }
        assert!(answer.status.is_success(), "{answer:?}");
        if step.verb == Verb::Add {
            self.ids.insert(step.item, answer.id());
            self.equip(step.item).await;
        }
        self.model.take(step);
    }

    fn request(&self, &Step { verb, item, ref keys }: &Step) -> RequestBuilder {
        let (collection, is_role) = (item.collection(), matches!(item, Item::Role(..)));
        let path = format!("{collection}/{}", self.id(item));
        let (method, path, body) = match verb {
            Verb::Add => {
                let of = item.stands_on().first().filter(|_| item.is_fixed()).map(|of| self.id(*of));
                let context = of.map_or_else(String::new, |id| format!("?ctx.orgId={id}"));
                (Method::POST, format!("{collection}{context}"), Some(self.new_one(item, keys)))
            }
            Verb::Change if is_role => (Method::PATCH, path, Some(json!({ "displayName": "Another" }))),
            Verb::Change => (Method::PATCH, path, Some(json!({ "roleKeys": { "values": keys } }))),
            Verb::Switch(true) => (Method::POST, format!("{path}/_reactivate"), None),
            Verb::Switch(false) => (Method::POST, format!("{path}/_deactivate"), None),
            Verb::Remove => (Method::DELETE, path, None),
        };
        let request = self.admin.request(method, &format!("{API}/{path}")).header("prefer", "wait=10");
        body.iter().fold(request, RequestBuilder::json)
    }

    fn new_one(&self, item: Item, keys: &Keys) -> Value {
        let project_id = |place| self.id(Item::Project(place));
        match item {
            Item::Organization(_) | Item::Project(_) => json!({ "name": format!("{item:?}") }),
            Item::User(place) => json!({ "username": format!("user-{place}"), "service": {} }),
            Item::Role(project, key) => {
                json!({ "projectId": project_id(project), "key": key, "displayName": key })
            }
            Item::ProjectGrant(project, organization) => {
                let organization = self.id(Item::Organization(organization));
                json!({ "projectId": project_id(project), "orgId": organization, "roleKeys": keys })
            }
            Item::UserGrant(user, project, organization) => {
                let by = organization.map_or("", |by| self.id(Item::ProjectGrant(project, by)));
                let (user, project) = (self.id(Item::User(user)), project_id(project));
                json!({ "userId": user, "projectId": project, "projectGrantId": by, "roleKeys": keys })
            }
        }
    }

    /// Gives a project an app that checks tokens, and a user a secret.
    async fn equip(&mut self, item: Item) {
        let id = self.id(item);
        let (path, body) = match item {
            Item::Project(_) => ("apps".to_owned(), json!({ "projectId": id, "name": "Checks", "api": {} })),
            Item::User(_) => (format!("users/{id}/_generate_secret"), json!({})),
            _ => return,
        };
        let answer = done(&self.admin, &format!("{API}/{path}"), body).await;
        let secret = answer.body["clientSecret"].as_str().expect("it is shown").to_owned();
        self.clients.insert(item, (answer.id(), secret));
    }

    /// Sends a form as a client that may not exist any more.
    async fn ask(&self, client: Item, path: &str, form: &[(&str, &str)]) -> Answer {
        let (id, secret) = &self.clients[&client];
        let answer = send(self.admin.anonymous(Method::POST, path).basic_auth(id, Some(secret)).form(form)).await;
        assert!([200, 401].contains(&answer.status.as_u16()), "{client:?}: {answer:?}");
        answer
    }

    /// Compares all answers with the model. Cached answers could be right by chance, so it waits for their end first.
    async fn compare(&self) {
        let since = Instant::now();
        eventually("a moment is over", async || (since.elapsed() > FORGOTTEN).then_some(())).await;
        let faults = self.faults().await;
        if !faults.is_empty() {
            println!("{faults:#?}");
            eventually("all is told as the model says", async || self.faults().await.is_empty().then_some(())).await;
        }
    }

    /// Returns the differences of tokens and introspection from the model.
    async fn faults(&self) -> Vec<String> {
        let mut faults = vec![];
        let audience = |place| format!("urn:platform:iam:org:project:id:{}:aud", self.id(Item::Project(place)));
        let scope = format!("openid {ROLES} {} {}", audience(0), audience(1));
        let form = [("grant_type", "client_credentials"), ("scope", scope.as_str())];
        for user in 0..ORGANIZATIONS {
            let (asking, answer) = (Item::User(user), self.ask(Item::User(user), "/oauth/v2/token", &form).await);
            for project in 0..OWNERS.len() {
                let (app, mut told) = (Item::Project(project), [None, None]);
                if let Some(token) = answer.body["access_token"].as_str() {
                    let [_, claims] = parts(token);
                    let checked = self.ask(app, "/oauth/v2/introspect", &[("token", token)]).await.body;
                    told = [Some(claims), Some(checked).filter(|checked| checked["active"] == true)];
                }
                let claim = format!("urn:platform:iam:org:project:{}:roles", self.id(app));
                let told = told.map(|claims| claims.map(|claims| claims[&claim].clone()));
                let is_told = [self.model.counts(asking), self.model.counts(asking) && self.model.counts(app)];
                let expected = is_told.map(|is_told| is_told.then(|| self.roles(user, project)));
                if told != expected {
                    faults.push(format!("{asking:?}, {app:?}: {told:?} instead of {expected:?}"));
                }
            }
        }
        faults
    }

    /// Returns the claim of the roles of a user in a project; null where there is none.
    fn roles(&self, user: usize, project: usize) -> Value {
        let mut claim = Value::Null;
        for by in (0..ORGANIZATIONS).map(Some).chain([None]) {
            let grant = Item::UserGrant(user, project, by);
            let giver = self.id(Item::Organization(by.unwrap_or(OWNERS[project])));
            for key in self.model.there.get(&grant).into_iter().flatten().filter(|_| self.model.counts(grant)) {
                claim[key][giver] = json!(self.host);
            }
        }
        claim
    }
}

async fn run(seed: u64) {
    println!("the seed is {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tenant = Tenant::start().await;
    let issuer = tenant.bootstrap.issuer.trim_start_matches("http://");
    let (admin, host) = (tenant.client().await, issuer.split(':').next().unwrap_or_default().to_owned());
    let mut world = World { admin, host, model: Model::default(), ids: BTreeMap::new(), clients: BTreeMap::new() };
    let projects = 0..OWNERS.len();
    let roles = projects.clone().flat_map(|project| KEYS.into_iter().take(3).map(move |key| Item::Role(project, key)));
    for item in Item::fixed().chain(roles) {
        world.take(Step::add(item, &[])).await;
    }
    for (project, place) in projects.flat_map(|project| (0..ORGANIZATIONS).map(move |place| (project, place))) {
        world.take(Step::add(Item::ProjectGrant(project, place), &KEYS[..3])).await;
        world.take(Step::add(Item::UserGrant(place, project, None), &KEYS[..2])).await;
    }
    world.compare().await;
    for number in 1..=STEPS {
        let step = world.model.draw(&mut random);
        world.take(step).await;
        if number % STEPS_A_LOOK == 0 {
            world.compare().await;
        }
    }
}

#[tokio::test]
async fn roles_in_tokens_are_those_of_a_naive_model() {
    run(19).await;
}

#[tokio::test]
async fn roles_in_tokens_are_those_of_a_naive_model_in_any_order() {
    run(fastrand::u64(..)).await;
}
