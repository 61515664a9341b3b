//! A row of the table: one operation, and all checks that must have the same outcome over every transport.

use futures::future::{BoxFuture, join_all};
use proto::operation::{Facts, Operation, Verb, Waived};
use reqwest::{Method, Url};
use serde_json::Value;
use tests::{
    client::{Answer, send},
    parts::Parts,
};

use super::{
    outcome::Outcome,
    read_back::{self, Aftermath},
    wire::{Headers, Transport, Travels, World},
};

const REQUEST_ID: (&str, &str) = ("x-request-id", "conformance");

/// An object that requests are about.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) id: String,
    /// The ids of other objects that requests about it name.
    pub(super) others: Vec<String>,
    /// The consistency token that a read must send to see it.
    pub(super) token: String,
    pub(super) sequence: u64,
}

impl Subject {
    /// Returns the subject with other objects that requests about it name.
    pub(super) fn naming(self, others: impl Into<Vec<String>>) -> Self {
        Self { others: others.into(), ..self }
    }
}

/// A function that creates an object.
pub(super) type Make = for<'a> fn(&'a World) -> BoxFuture<'a, Subject>;
type Request<I> = fn(&Subject) -> I;

/// One operation and requests to it.
pub(super) struct Row<I: 'static, O: 'static> {
    operation: &'static Operation<I, O>,
    make: Make,
    good: Vec<(&'static str, Request<I>)>,
    bad: Vec<(&'static str, &'static str, Request<I>)>,
    /// Whether another row of the same handler has the derived checks.
    is_alike: bool,
    /// Whether answers have the progress of the platform, which changes by itself.
    is_moving: bool,
    /// The member of an answer with an event, which is shown once: a repeated answer lacks it.
    shows: Option<&'static str>,
}

/// A row of any types.
pub(in crate::table) trait Check {
    fn facts(&self) -> &'static Facts;
    /// Runs all checks over every transport.
    fn check<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()>;
    /// Sends the first valid request with the token of a caller over HTTP and gRPC, each about a new object.
    fn permits<'a>(&'a self, world: &'a World, caller: &'static str, token: &'a str) -> BoxFuture<'a, ()>;
}

/// Begins the row of an operation, with the function that creates its objects.
pub(super) fn row<I, O>(operation: &'static Operation<I, O>, make: Make) -> Row<I, O> {
    Row { operation, make, good: vec![], bad: vec![], is_alike: false, is_moving: false, shows: None }
}

impl<I: Travels + Sync, O: Travels> Row<I, O> {
    /// Adds a request that succeeds on a new object.
    pub(super) fn good(mut self, case: &'static str, request: Request<I>) -> Self {
        self.good.push((case, request));
        self
    }

    /// Adds a request that is refused for this reason.
    pub(super) fn bad(mut self, case: &'static str, reason: &'static str, request: Request<I>) -> Self {
        self.bad.push((case, reason, request));
        self
    }

    /// Leaves out the derived checks, because another row has an operation with the same handler for other types.
    pub(super) fn alike(self) -> Self {
        Self { is_alike: true, ..self }
    }

    /// Compares answers without what changes by itself.
    pub(super) fn moving(self) -> Self {
        Self { is_moving: true, ..self }
    }

    /// Compares answers that show an event in a member only once.
    pub(super) fn showing(self, member: &'static str) -> Self {
        Self { shows: Some(member), ..self }
    }

    /// Returns the row for the table.
    pub(super) fn done(self) -> Box<dyn Check + Sync> {
        Box::new(self)
    }
}

/// The calls of one row on one platform.
struct Calls<'a, I: 'static, O: 'static> {
    row: &'a Row<I, O>,
    world: &'a World,
    bearer: String,
}

impl<I: Travels + Sync, O: Travels> Check for Row<I, O> {
    fn facts(&self) -> &'static Facts {
        &self.operation.facts
    }

    fn check<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        let is_of_system = self.facts().permission.is_some_and(|permission| permission.starts_with("system."));
        let who = if is_of_system { &world.operator } else { &world.owner };
        let calls = Calls { row: self, world, bearer: format!("Bearer {}", who.token) };
        Box::pin(async move {
            assert!(!self.good.is_empty(), "{} has no request that succeeds", self.facts().method);
            calls.good().await;
            if let Some(path) = read_back::collection(self.facts()) {
                calls.read_back(path).await;
            }
            if let Some((path, aftermath)) = read_back::aftermath(self.facts()) {
                calls.read_after(path, aftermath).await;
            }
            calls.bad().await;
            if self.is_alike {
                return;
            }
            calls.callers().await;
            calls.consistency().await;
            // What is put need not be there.
            if self.facts().path.contains("{id}") && self.facts().verb != Verb::Put {
                calls.ids().await;
            }
            if !self.facts().only_reads() && self.facts().is_logged() {
                calls.idempotency().await;
                calls.if_match().await;
            }
        })
    }

    fn permits<'a>(&'a self, world: &'a World, caller: &'static str, token: &'a str) -> BoxFuture<'a, ()> {
        let calls = Calls { row: self, world, bearer: format!("Bearer {token}") };
        Box::pin(async move {
            for transport in [Transport::Http1, Transport::Grpc] {
                let subject = calls.subject().await;
                let fresh = [("consistency-token", subject.token.as_str()), ("consistency-wait", "10s")];
                let outcome = calls.call(transport, &calls.plain()(&subject), &fresh).await;
                assert!(outcome.result.is_ok(), "{}, {caller}, {transport:?}: {outcome:?}", self.facts().method);
            }
        })
    }
}

impl<I: Travels + Sync, O: Travels> Calls<'_, I, O> {
    async fn subject(&self) -> Subject {
        (self.row.make)(self.world).await
    }

    /// Returns the first valid request.
    fn plain(&self) -> Request<I> {
        self.row.good[0].1
    }

    /// Calls the operation with the token of the caller with all rights.
    async fn call(&self, transport: Transport, message: &I, headers: Headers<'_>) -> Outcome {
        let all = [&[REQUEST_ID, ("authorization", &self.bearer)], headers].concat();
        let outcome = self.world.call(transport, self.row.operation, message, &all).await;
        let sent = serde_json::to_value(message).expect("messages have a JSON form");
        read_back::assert_secret(self.row.facts(), &sent, &outcome);
        outcome
    }

    /// Sends one request about one object over all transports, whose answers must be equal.
    async fn same(&self, case: &str, reason: &str, message: &I, headers: Headers<'_>) -> Outcome {
        let mut outcomes = vec![];
        for transport in Transport::ALL {
            let outcome = self.call(transport, message, headers).await;
            outcomes.push((transport, if self.row.is_moving { outcome.of_any_object() } else { outcome }));
        }
        self.alike(case, reason, outcomes)
    }

    /// Sends one request over all transports, each about an object of its own, whose answers must be equal except for
    /// what depends on the object.
    async fn same_done(
        &self,
        case: &str,
        request: Request<I>,
        headers: impl Fn(&Subject) -> Vec<(&'static str, String)>,
    ) -> Outcome {
        let mut outcomes = vec![];
        let mut subjects = vec![];
        // There is one execution of a condition, and one generation of a view at a place.
        if !["/executions", "/views/"].iter().any(|part| self.row.facts().path.contains(part)) {
            subjects = join_all(Transport::ALL.map(|_| self.subject())).await;
        }
        for transport in Transport::ALL {
            let made = subjects.pop();
            let subject = if let Some(subject) = made { subject } else { self.subject().await };
            let headers = headers(&subject);
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let outcome = self.call(transport, &request(&subject), &headers).await;
            // What the event is about is the object.
            let own: Vec<&str> = self.row.shows.into_iter().chain(["aggregateId"]).collect();
            let outcome = if self.row.shows.is_some() { outcome.without(&own) } else { outcome };
            outcomes.push((transport, outcome.of_any_object()));
        }
        self.alike(case, "", outcomes)
    }

    fn alike(&self, case: &str, reason: &str, outcomes: Vec<(Transport, Outcome)>) -> Outcome {
        let method = self.row.facts().method;
        let (_, first) = outcomes[0].clone();
        for (transport, outcome) in outcomes {
            assert_eq!(outcome.reason(), reason, "{method}, {case}, {transport:?}: {outcome:?}");
            assert_eq!(outcome, first, "{method}, {case}: {transport:?} and {:?} differ", Transport::ALL[0]);
        }
        assert_eq!(first.metadata["x-request-id"], REQUEST_ID.1, "{method}, {case}");
        first
    }

    async fn good(&self) {
        for (case, request) in &self.row.good {
            if self.row.facts().only_reads() {
                let subject = self.subject().await;
                let headers = [("consistency-token", subject.token.as_str()), ("consistency-wait", "10s")];
                let outcome = self.same(case, "", &request(&subject), &headers).await;
                assert!(outcome.metadata.contains_key("consistency-token"), "{case}");
            } else {
                self.same_done(case, *request, |_| vec![]).await;
            }
        }
        if !self.row.facts().only_reads() && self.row.facts().is_logged() {
            // How an answer waits does not depend on what is written.
            let waited = self.same_done("plain", self.plain(), |_| vec![("prefer", "wait=10".to_owned())]).await;
            assert_eq!(waited.metadata["preference-applied"], "wait", "{}", self.row.facts().method);
        }
    }

    /// Checks that a get returns what was sent, and that each field is in a valid request.
    async fn read_back(&self, path: &str) {
        let method = self.row.facts().method;
        let mut left = read_back::fields(self.row.facts());
        for (case, request) in &self.row.good {
            let message = request(&self.subject().await);
            let outcome = self.call(Transport::Http1, &message, &[]).await;
            let written = outcome.result.unwrap_or_else(|error| panic!("{method}, {case}: {error}"));
            let id = written["details"]["id"].as_str().expect("an answer names the object");
            let path = format!("{}{}", self.filled(path, &message), segment(id));
            let read = self.read(&path, &outcome.metadata["consistency-token"]).await;
            let sent = read_back::sent(&serde_json::to_value(&message).expect("messages have a JSON form"));
            read_back::assert_shown(&format!("{method}, {case}"), &sent, &read.body);
            left.retain(|field| !read_back::has(&sent, field));
        }
        assert!(left.is_empty(), "{method}: no request that succeeds has {left:?}");
    }

    /// Checks that an object that was removed is not found, and that one that was switched has its new state.
    async fn read_after(&self, path: &str, aftermath: Aftermath) {
        let (method, subject) = (self.row.facts().method, self.subject().await);
        let message = self.plain()(&subject);
        let path = self.filled(path, &message);
        let before = self.read(&path, &subject.token).await;
        assert!(before.status == 200 && !aftermath.is_of(&before), "{method}, before: {}", before.body);
        let outcome = self.call(Transport::Http1, &message, &[]).await;
        let after = self.read(&path, &outcome.metadata["consistency-token"]).await;
        assert!(aftermath.is_of(&after), "{method}, {aftermath:?}: {} {}", after.status, after.body);
    }

    /// Reads an object as of a consistency token.
    async fn read(&self, path: &str, token: &str) -> Answer {
        let client = self.world.owner.with(self.bearer.trim_start_matches("Bearer ").to_owned());
        let request = client.request(Method::GET, path).header("consistency-wait", "10s");
        send(request.header("consistency-token", token)).await
    }

    /// Fills the parameters of a path from a message.
    fn filled(&self, path: &str, message: &I) -> String {
        let Ok(Value::Object(fields)) = serde_json::to_value(message) else { panic!("a message is an object") };
        let parameters = Parts::of(self.row.facts(), fields).path;
        parameters.iter().fold(path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value))
    }

    async fn bad(&self) {
        let subject = self.subject().await;
        for (case, reason, request) in &self.row.bad {
            let outcome = self.same(case, reason, &request(&subject), &[]).await;
            let error = outcome.result.expect_err("it has a reason").to_string();
            assert!(*reason != "INVALID_REQUEST" || error.contains("fieldViolations"), "{case}: {error}");
        }
    }

    async fn callers(&self) {
        let message = self.plain()(&self.subject().await);
        let nobody = format!("Bearer {}", self.world.nobody);
        let mut callers = vec![
            ("no token", None, "TOKEN_MISSING"),
            ("a garbage token", Some("Bearer garbage"), "TOKEN_INVALID"),
            ("another scheme", Some("Basic Zm9vOmJhcg=="), "TOKEN_MISSING"),
        ];
        let refused = match self.row.facts().waived {
            Waived::Never => Some("PERMISSION_DENIED"),
            Waived::ByToken => Some("RESOURCE_NOT_FOUND"),
            Waived::Own => self.row.facts().path.contains("{id}").then_some("RESOURCE_NOT_FOUND"),
        };
        callers.extend(refused.map(|reason| ("a caller without roles", Some(nobody.as_str()), reason)));
        for (case, authorization, reason) in callers {
            let headers: Vec<_> =
                [REQUEST_ID].into_iter().chain(authorization.map(|it| ("authorization", it))).collect();
            let mut outcomes = vec![];
            for transport in Transport::ALL {
                let outcome = self.world.call(transport, self.row.operation, &message, &headers).await;
                outcomes.push((transport, outcome));
            }
            self.alike(case, reason, outcomes);
        }
    }

    async fn consistency(&self) {
        let subject = self.subject().await;
        let message = self.plain()(&subject);
        let (head, last) = subject.token.split_at(subject.token.len() - 1);
        let forged = format!("{head}{}", if last == "A" { "E" } else { "A" });
        for (case, reason, header) in [
            ("a token that is none", "CONSISTENCY_TOKEN_INVALID", ("consistency-token", "abc")),
            ("a forged token", "CONSISTENCY_TOKEN_INVALID", ("consistency-token", forged.as_str())),
            ("a long wait", "INVALID_REQUEST", ("consistency-wait", "11s")),
            ("a wait without unit", "INVALID_REQUEST", ("consistency-wait", "3")),
        ] {
            self.same(case, reason, &message, &[header]).await;
        }
        if self.row.facts().only_reads() {
            let future = self.world.secrets.consistency(&subject.token, subject.sequence + 1_000_000).await;
            let headers = [("consistency-token", future.as_str()), ("consistency-wait", "1ms")];
            // The read model has the object, and nothing is written meanwhile.
            self.same("caught up", "", &message, &[("consistency-token", &subject.token)]).await;
            self.same("what is not written yet", "CONSISTENCY_NOT_REACHED", &message, &headers).await;
        }
    }

    async fn ids(&self) {
        let subject = self.subject().await;
        let with_id = |id: &str| {
            let mut message = serde_json::to_value(self.plain()(&subject)).expect("messages have a JSON form");
            message["id"] = id.into();
            serde_json::from_value::<I>(message).expect("it is of the same type")
        };
        let own = [("consistency-token", subject.token.as_str())];
        for (case, id) in
            [("an unknown id", "1"), ("an id that is no number", "a/ä?b c%2F#"), ("200 characters", &"x".repeat(200))]
        {
            self.same(case, "RESOURCE_NOT_FOUND", &with_id(id), &own).await;
        }
        self.same("201 characters", "INVALID_REQUEST", &with_id(&"x".repeat(201)), &[]).await;
    }

    async fn idempotency(&self) {
        let message = self.plain()(&self.subject().await);
        let key = format!("conformance of {}", self.row.facts().method);
        let header = ("idempotency-key", key.as_str());
        let first = self.call(Transport::ALL[0], &message, &[header]).await;
        assert!(first.result.is_ok() && !first.metadata.contains_key("idempotency-replayed"), "{first:?}");
        let mut again = self.same("the same again", "", &message, &[header]).await;
        assert_eq!(again.metadata.remove("idempotency-replayed").as_deref(), Some("true"));
        let shows: Vec<&str> = self.row.shows.into_iter().collect();
        let told = first.clone().without(&shows);
        assert_eq!(told != first, self.row.shows.is_some(), "{first:?}");
        assert_eq!(again, told, "{}: the answer is the first one", self.row.facts().method);
        if self.row.facts().path.ends_with("{id}") {
            self.same("another request", "IDEMPOTENCY_KEY_REUSED", &message, &[header, ("if-match", "1")]).await;
        }
        let long = "x".repeat(201);
        self.same("a long key", "INVALID_REQUEST", &message, &[("idempotency-key", &long)]).await;
        self.same("two keys", "INVALID_REQUEST", &message, &[("idempotency-key", "a"), ("idempotency-key", "b")]).await;
    }

    async fn if_match(&self) {
        let subject = self.subject().await;
        let message = self.plain()(&subject);
        self.same("another sequence", "SEQUENCE_MISMATCH", &message, &[("if-match", "\"987654321\"")]).await;
        self.same("no sequence", "SEQUENCE_MISMATCH", &message, &[("if-match", "W/\"x\"")]).await;
        if !self.row.facts().path.ends_with("{id}") {
            // What it is about may not be there, or be another object than the subject.
            return;
        }
        self.same_done("its sequence", self.plain(), |it| vec![("if-match", format!("\"{}\"", it.sequence))]).await;
    }
}

/// Returns the segment of a path for an id, including the slash before it.
fn segment(id: &str) -> String {
    let mut url = Url::parse("http://host").expect("it is one");
    url.path_segments_mut().expect("it can have a path").push(id);
    url.path().to_owned()
}
