//! An admitted request: its context, its caller, and what the caller may do.

use std::{sync::Arc, time::Duration};

use domain::{
    context::{Owner, OwnerType, Part},
    log_class::{LogClass, OfEach},
    standard::Resource,
};
use proto::{Contextual, operation::Facts};
use view::directory::{Principal, Tenant};

use crate::{
    caller::Verified,
    consistency::{Tokens, unavailable},
    error::Error,
    freshness::Consistency,
    precondition::IfMatch,
    trigger::Triggered,
};

/// A request that was admitted.
#[derive(Debug, Clone)]
pub struct Call {
    /// The id of the request in logs and answers.
    pub request_id: String,
    /// The requested operation.
    pub operation: &'static Facts,
    /// The instance that the request is about: that of the host, unless an operator of the platform names another.
    pub tenant: Arc<Tenant>,
    /// The context that the request is about.
    pub context: Owner,
    /// The instance of the host, which is the caller's.
    pub home: Arc<Tenant>,
    /// The user that sent the request.
    pub caller: Arc<Principal>,
    /// The token that it sent.
    pub(crate) token: Arc<Verified>,
    /// Whether the caller is a system user, whose roles are those of the configuration.
    pub is_system: bool,
    /// How fresh the answer must be, for each log.
    pub consistency: OfEach<Consistency>,
    /// The caller's name for this write.
    pub idempotency_key: Option<String>,
    /// The sequences that the object may have.
    pub if_match: Option<IfMatch>,
    /// How long a write waits for the read models to have it.
    pub wait: Option<Duration>,
    /// The W3C `traceparent` of the request.
    pub trace_context: String,
    /// The number of calls of targets that the request is nested in.
    pub depth: u32,
    /// The executions that it triggers.
    pub triggered: Option<Arc<Triggered>>,
    /// The organization that a header names.
    pub(crate) organization: Option<String>,
}

impl Call {
    /// The request as the client sent it, in protobuf, before targets have changed it.
    pub fn original_request(&self, request: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let asked = self.triggered.as_ref().and_then(|triggered| triggered.original_request());
        asked.map_or_else(request, <[u8]>::to_vec)
    }

    /// The consistency token of an answer as of a sequence of one log.
    ///
    /// # Errors
    /// When the key is unavailable.
    pub async fn token_at(&self, tokens: &Tokens, class: LogClass, sequence: u64) -> Result<String, Error> {
        tokens.mint(self.seen_with(class, sequence)).await.map_err(unavailable)
    }

    /// The sequences that the client has seen after an answer as of a sequence of one log; those of the other log stay.
    pub fn seen_with(&self, class: LogClass, sequence: u64) -> OfEach<u64> {
        let mut seen = self.consistency.map(|asked| asked.required);
        seen[class] = seen[class].max(sequence);
        seen
    }

    /// The id of the personal access token that the request sent, if it sent one.
    pub fn personal_access_token(&self) -> Option<&str> {
        self.token.personal.as_ref().map(|found| found.id.as_str())
    }

    /// The sequence of the log that the issuer of the request's token had seen.
    pub fn token_seen(&self) -> u64 {
        self.token.sequence
    }

    /// The context that a request names in its body or by a header, if it names one.
    pub fn named(&self, request: &impl Contextual) -> Option<&Owner> {
        let is_named = request.context().is_some() || self.context.kind == OwnerType::Organization;
        is_named.then_some(&self.context)
    }

    /// The instance that stores resources of a kind, which is that of the call; `None` if each is an instance itself.
    pub fn instance_for<R: Resource>(&self) -> Option<&str> {
        (R::context("", &Owner::system()).kind != OwnerType::Instance).then_some(&self.tenant.id)
    }

    /// The instance that stores a resource: an instance is stored in itself, everything else in that of the call.
    pub fn instance_of<'a, R: Resource>(&'a self, id: &'a str) -> &'a str {
        self.instance_for::<R>().unwrap_or(id)
    }

    /// The permission that the operation needs in a context.
    pub fn needs(&self, context: &Owner) -> Option<&'static str> {
        self.operation.permission_in(context.kind == OwnerType::System)
    }

    /// Whether the caller's roles permit the operation in a context.
    pub fn may(&self, context: &Owner) -> bool {
        let permitted = |permission: &str| self.caller.may(permission, &context.chain(&self.tenant.id));
        self.needs(context).is_some_and(permitted)
    }

    /// Whether the caller's roles permit the operation on something in a context, or in one of its parts given.
    pub fn may_within(&self, context: &Owner, parts: &[Part]) -> bool {
        let is_there = |(of, part): (&Owner, &Part)| of == context && parts.contains(part);
        let permitted = |permission: &str| self.caller.parts(permission).any(is_there);
        self.may(context) || self.needs(context).is_some_and(permitted)
    }

    /// The parts of contexts in which the caller may perform the operation, beside complete contexts.
    pub fn parts(&self) -> Vec<(Owner, Part)> {
        let Some(permission) = self.operation.permission else { return vec![] };
        self.caller.parts(permission).map(|(context, part)| (context.clone(), part.clone())).collect()
    }

    /// Whether the operation permits the caller something in a context because it belongs to it, whatever its roles.
    pub fn belongs_to(&self, context: &Owner) -> bool {
        let is_home = self.home.id == self.tenant.id && !self.is_system;
        let is_own = *context == self.caller.owner || *context == Owner::instance(&self.home.id);
        self.operation.is_self() && is_home && is_own
    }

    /// Whether the operation permits the caller something on what belongs to a user, whatever its roles.
    pub fn is_own(&self, user_id: Option<&str>) -> bool {
        self.home.id == self.tenant.id && !self.is_system && self.operation.gives(&self.caller.id, user_id)
    }

    /// Where the caller may perform the operation: everywhere in the instance (`None`), or in these contexts.
    pub fn contexts(&self) -> Option<Vec<Owner>> {
        let Some(permission) = self.operation.permission else { return Some(vec![]) };
        if self.may(&Owner::instance(&self.tenant.id)) {
            return None;
        }
        Some(self.caller.contexts(permission).cloned().collect())
    }
}
