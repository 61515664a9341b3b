//! Admission: turns the headers of a request into a call, or into the reason why it is refused.
//!
//! Rights are read from a read model. A read requires rights that are as new as its consistency token. A write is
//! decided on the log, so it waits for what its caller has seen only before it is refused.

pub mod holder;
mod origin;
pub mod own_app;

use std::sync::Arc;

use action::{Actions, chain::Cause};
use base::trace;
use domain::{
    context::{Owner, OwnerType},
    permission,
    rejection::Rejection,
    setting::features::Features,
    settings::Chain,
};
use http::request::Parts;
use proto::{
    object::{RequestContext, request_context::ResourceOwner},
    operation::Facts,
};
use view::{
    database::DatabaseFailure,
    directory::{Directory, Locator, Principal, Tenant},
    ended::Ended,
    settings::SettingsIndex,
};

pub use self::holder::HeldToken;
use self::holder::VerifiedRequest;
use crate::{
    call::Call,
    caller::{External, RefusedToken, SystemUsers, Verified, Verifier},
    consistency::{Tokens, waited},
    error::{Error, Reason},
    freshness::{Consistency, OWN_WAIT},
    header::{ORGANIZATION, host, idempotency_key, one, text, trace_context},
    mount::Admit,
    precondition::IfMatch,
    prefer,
    refusal::{feature_disabled, for_nobody, is_open, permission_denied, read_model},
    request_id::REQUEST_ID,
    trigger::{self, Trigger, Triggered},
};

/// What a node knows of the log.
pub struct ReadModels {
    /// Instances, organizations, users, and the projects, apps and grants that tokens depend on.
    pub directory: Directory,
    /// What was deactivated or removed.
    pub ended: Ended,
    /// The settings and state policies of every context.
    pub settings: SettingsIndex,
}

/// What a node needs to admit requests.
pub struct Edge {
    /// Instances, organizations, users, and the projects, apps and grants that tokens depend on.
    pub directory: Directory,
    /// What was deactivated or removed.
    pub ended: Ended,
    /// The settings and state policies of every context.
    pub settings: SettingsIndex,
    /// Consistency tokens.
    pub tokens: Tokens,
    /// How instances are reached from outside.
    pub external: External,
    /// What executions need.
    pub actions: Actions,
    pub(crate) verifier: Verifier,
}

/// The caller of a request, whatever the operation.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The instance of the host.
    pub tenant: Arc<Tenant>,
    /// The user; a system user has the roles of the configuration.
    pub principal: Arc<Principal>,
    /// Whether it is a system user.
    pub is_system: bool,
    /// When the token expires, in seconds since the Unix epoch.
    pub expires: i64,
}

/// The valid token of a request, and the instance that it is valid for.
#[derive(Clone)]
struct Recognised {
    tenant: Arc<Tenant>,
    token: Arc<Verified>,
}

impl Edge {
    /// An edge with an empty cache of verified tokens.
    pub fn new(
        ReadModels { directory, ended, settings }: ReadModels,
        tokens: Tokens,
        external: External,
        system: SystemUsers,
        actions: Actions,
    ) -> Self {
        let verifier = Verifier::new(external.clone(), system);
        Self { directory, ended, settings, tokens, external, actions, verifier }
    }

    /// Returns the instance that a request names if the request has a valid token for it, before the operation is
    /// known. The token is stored with the request, so that it is verified once. An invalid one is refused, and
    /// reported in the log, by the code that admits the request.
    pub async fn recognise(&self, parts: &mut Parts) -> Option<Arc<Tenant>> {
        let tenant = self.tenant(parts, 0).await.ok()?;
        let token = holder::verify(self, parts, &tenant, 0).await.ok()?;
        parts.extensions.insert(Recognised { tenant: tenant.clone(), token });
        Some(tenant)
    }

    /// Returns the caller to whom the token of a request belongs.
    ///
    /// # Errors
    /// When it has no token that is valid here, or that cannot be verified.
    pub async fn caller_of(&self, parts: &Parts) -> Result<Caller, Error> {
        let tenant = self.tenant(parts, 0).await?;
        let token = holder::verify(self, parts, &tenant, 0).await.map_err(RefusedToken::into_error)?;
        let (principal, is_system) = (holder::caller(self, &tenant, &token, 0).await?, token.system.is_some());
        if !is_system {
            is_open(&tenant, &self.ended)?;
        }
        Ok(Caller { tenant, principal, is_system, expires: token.expires })
    }

    /// Returns the instance that a request without a caller is for.
    ///
    /// # Errors
    /// When there is none, or it may not be used.
    pub async fn open_tenant(&self, parts: &Parts) -> Result<Arc<Tenant>, Error> {
        let tenant = self.tenant(parts, 0).await?;
        is_open(&tenant, &self.ended)?;
        Ok(tenant)
    }

    /// The instance that a request is for, by its host. Errors name the request.
    pub async fn tenant(&self, parts: &Parts, sequence: u64) -> Result<Arc<Tenant>, Error> {
        let found = self.tenant_of(parts, sequence).await;
        found.map_err(|error| error.request_id(text(&parts.headers, REQUEST_ID.as_str()).unwrap_or_default()))
    }

    async fn tenant_of(&self, parts: &Parts, sequence: u64) -> Result<Arc<Tenant>, Error> {
        let host = host(&parts.uri, &parts.headers)?;
        let tenant = self.directory.tenant(Locator::Domain(host.clone()), sequence).await.map_err(read_model)?;
        if let Some(tenant) = &tenant {
            tracing::Span::current().record("instance", tenant.id.as_str());
        }
        tenant.ok_or_else(|| {
            Error::new(Reason::InstanceNotFound, format!("no instance has the host {host}")).with("host", host)
        })
    }

    /// Admits a request to an operation: instance, caller, feature flag, permission, in this order.
    pub async fn admit(&self, operation: &'static Facts, parts: &Parts) -> Result<Call, Error> {
        let asked = self.tokens.requested(&parts.headers).await?;
        // What admits requests follows from `EVENTS`.
        let consistency = asked.events;
        let tenant = match self.tenant(parts, consistency.required).await {
            Err(refused) if self.knows_more(refused.reason(), consistency).await => {
                self.tenant(parts, consistency.newest_seen()).await?
            }
            tenant => tenant?,
        };
        let token = match holder::verify(self, parts, &tenant, consistency.required).await {
            // A token that was issued a moment ago may not be known yet.
            Err(refused) if self.knows_more(refused.reason(), consistency).await => {
                holder::verify(self, parts, &tenant, consistency.newest_seen()).await
            }
            verified => verified,
        };
        let token = token.map_err(RefusedToken::into_error)?;
        let asked = self.tokens.with_own(asked, &tenant.id, &token.user_id);
        let consistency = asked.events;
        if operation.only_reads() {
            self.wait_for_rights(consistency).await?;
        }
        let request = VerifiedRequest { operation, parts, tenant: &tenant, token: &token };
        let (tenant, caller) = match self.rights(request, consistency.required).await {
            Err(refused) if self.knows_more(refused.reason(), consistency).await => {
                self.rights(request, consistency.newest_seen()).await?
            }
            rights => rights?,
        };
        let trace_context = trace::context(trace_context(&parts.headers));
        let (depth, is_system) = (trigger::depth(&parts.headers)?, token.system.is_some());
        let cause = || Cause { depth, trace_context: trace_context.clone() };
        let trigger = Trigger { operation, tenant: &tenant, caller: &caller, parts };
        let triggered = if is_system { None } else { Triggered::of(&self.actions, trigger, cause) };
        Ok(Call {
            request_id: text(&parts.headers, REQUEST_ID.as_str()).unwrap_or_default().to_owned(),
            operation,
            context: Owner::instance(&tenant.id),
            home: tenant.clone(),
            tenant,
            caller,
            token,
            is_system,
            consistency: asked,
            idempotency_key: idempotency_key(&parts.headers)?,
            if_match: IfMatch::of(operation, &parts.headers),
            wait: prefer::wait(&parts.headers),
            trace_context,
            depth,
            triggered,
            organization: one(&parts.headers, ORGANIZATION)?.map(str::to_owned),
        })
    }

    /// Returns the instance, if it may be used, and the holder of a token, if they may perform the operation anywhere;
    /// both as of a sequence or later.
    async fn rights(
        &self,
        VerifiedRequest { operation, parts, tenant, token }: VerifiedRequest<'_>,
        sequence: u64,
    ) -> Result<(Arc<Tenant>, Arc<Principal>), Error> {
        let tenant = if tenant.as_of.get() < sequence { self.tenant(parts, sequence).await? } else { tenant.clone() };
        let caller = holder::caller(self, &tenant, token, sequence).await?;
        if token.system.is_none() {
            is_open(&tenant, &self.ended)?;
        }
        origin::permit_origin(self, parts, &tenant, token, sequence).await?;
        if let Some(feature) = operation.feature
            && !self.features(&tenant.id).has(feature)
        {
            return Err(feature_disabled(feature));
        }
        // The contexts in which it is required are known once the body is.
        match operation.permission {
            _ if operation.is_for_any_caller() => Ok((tenant, caller)),
            Some(permission) if !caller.may_somewhere(permission) => Err(permission_denied(permission)),
            Some(_) => Ok((tenant, caller)),
            None => Err(for_nobody()),
        }
    }

    /// The feature flags of an instance.
    pub fn features(&self, instance_id: &str) -> Chain<Features> {
        self.settings.effective(instance_id, &Owner::instance(instance_id)).chain
    }

    /// Waits until rights are known as of what a read requires. While Postgres is down, older rights are used.
    async fn wait_for_rights(&self, consistency: Consistency) -> Result<(), Error> {
        for known in [self.settings.position(), self.ended.position()] {
            let processed = known.processed_by(consistency.required, consistency.left()).await;
            consistency.accept(processed).inspect_err(|_| waited(consistency, None))?;
        }
        match self.directory.processed_by(consistency.required, consistency.left()).await {
            Ok(processed) => consistency.accept(processed).inspect_err(|_| waited(consistency, None)),
            Err(failure @ DatabaseFailure::Inconsistent { .. }) => Err(read_model(Arc::new(failure))),
            Err(_) => Ok(()),
        }
    }

    /// Whether more is known than when a request was refused: waits a moment for what the caller has seen.
    pub(crate) async fn knows_more(&self, refused: Reason, consistency: Consistency) -> bool {
        let seen = consistency.newest_seen();
        let rests_on_rights = matches!(
            refused,
            Reason::InstanceNotFound
                | Reason::InstanceInactive
                | Reason::InstanceBlocked
                | Reason::TokenInvalid
                | Reason::OriginNotAllowed
                | Reason::FeatureDisabled
                | Reason::PermissionDenied
                | Reason::ResourceNotFound
        );
        rests_on_rights
            && seen > 0
            && self.settings.position().processed_by(seen, OWN_WAIT).await >= seen
            && self.ended.position().processed_by(seen, OWN_WAIT).await >= seen
            && self.directory.processed_by(seen, OWN_WAIT).await.is_ok_and(|processed| processed >= seen)
    }

    /// Completes a call with the context that its body names.
    ///
    /// # Errors
    /// When there is no such context, or the caller may not know of it or not do this there.
    pub(crate) async fn within(&self, mut call: Call, wanted: Option<&RequestContext>) -> Result<Call, Error> {
        let named = wanted.and_then(|wanted| wanted.resource_owner.as_ref());
        let (context, tenant) = match self.locate(&call, named, call.consistency.events.required).await {
            Err(refused) if self.knows_more(refused.reason(), call.consistency.events).await => {
                let seen = call.consistency.events.newest_seen();
                call.caller = holder::caller(self, &call.home, &call.token, seen).await?;
                self.locate(&call, named, seen).await?
            }
            located => located?,
        };
        let by_operator = |needed: &str| needed.starts_with("system.") || call.caller.may(needed, &[Owner::system()]);
        let by_operator = call.operation.permission.is_some_and(by_operator) || context.kind == OwnerType::System;
        // Executions of an instance neither see nor influence what is done with rights above its own.
        let triggered = call.triggered.filter(|_| !by_operator);
        if call.operation.of_organization && context.kind != OwnerType::Organization {
            return Err(Rejection::invalid("ctx", "must name an organization").into());
        }
        Ok(Call { tenant, context, triggered, ..call })
    }

    /// Returns the context that a call names, and its instance, as of a sequence or later.
    async fn locate(
        &self,
        call: &Call,
        named: Option<&ResourceOwner>,
        sequence: u64,
    ) -> Result<(Owner, Arc<Tenant>), Error> {
        let own = || (Owner::instance(&call.tenant.id), call.tenant.clone());
        let organization = async |name| Ok((self.organization(call, name, sequence).await?, call.tenant.clone()));
        match named {
            Some(ResourceOwner::System(_)) => {
                let context = Owner::system();
                if !call.may(&context) {
                    return Err(call.needs(&context).map_or_else(for_nobody, permission_denied));
                }
                Ok((context, call.tenant.clone()))
            }
            Some(ResourceOwner::InstanceId(id)) if *id == call.tenant.id => Ok(own()),
            Some(ResourceOwner::InstanceId(id)) => self.elsewhere(call, Locator::Id(id.clone()), sequence).await,
            Some(ResourceOwner::InstanceDomain(name)) => {
                self.elsewhere(call, Locator::Domain(name.to_ascii_lowercase()), sequence).await
            }
            Some(ResourceOwner::OrgId(id)) => organization(Locator::Id(id.clone())).await,
            Some(ResourceOwner::OrgDomain(name)) => organization(Locator::Domain(name.to_ascii_lowercase())).await,
            None => match (
                call.organization.clone().filter(|_| call.operation.has_context()),
                call.operation.of_organization,
            ) {
                (Some(id), _) => organization(Locator::Id(id)).await,
                (None, true) if call.is_system => {
                    let rule = "must name an organization, because system users belong to none";
                    Err(Rejection::invalid("ctx", rule).into())
                }
                (None, true) => Ok((call.caller.owner.clone(), call.tenant.clone())),
                (None, false) => Ok(own()),
            },
        }
    }

    /// Returns an instance that is not the one of the host, which only operators of the platform may enter.
    async fn elsewhere(&self, call: &Call, host: Locator, sequence: u64) -> Result<(Owner, Arc<Tenant>), Error> {
        let found = self.directory.tenant(host, sequence).await.map_err(read_model)?;
        let may_enter = call.operation.permission.is_some_and(|needed| call.caller.may(needed, &[Owner::system()]));
        let is_home = |tenant: &Arc<Tenant>| tenant.id == call.home.id;
        let tenant = found.filter(|tenant| is_home(tenant) || may_enter).ok_or(Rejection::NotFound("instance"))?;
        Ok((Owner::instance(&tenant.id), tenant))
    }

    async fn organization(&self, call: &Call, name: Locator, sequence: u64) -> Result<Owner, Error> {
        let unknown = || Error::from(Rejection::NotFound("organization"));
        let found = self.directory.organization(&call.tenant.id, name, sequence).await;
        let context = Owner::organization(&found.map_err(read_model)?.ok_or_else(unknown)?.id);
        // Where no role is required, the caller may name its own organization.
        if call.belongs_to(&context) {
            return Ok(context);
        }
        let Some(needed) = call.operation.permission else { return Err(unknown()) };
        let chain = context.chain(&call.tenant.id);
        // Roles in parts of it are checked later.
        let may = |permission: &str| {
            call.caller.may(permission, &chain) || call.caller.parts(permission).any(|(of, _)| *of == context)
        };
        if !may(needed) {
            let may_read = may(&permission::reading(needed));
            return Err(if may_read { permission_denied(needed) } else { unknown() });
        }
        Ok(context)
    }
}

impl Admit for Edge {
    type Call = Call;

    async fn admit(&self, operation: &'static Facts, parts: &Parts) -> Result<Call, Error> {
        Self::admit(self, operation, parts).await
    }

    async fn within(&self, call: Call, wanted: Option<&RequestContext>) -> Result<Call, Error> {
        Self::within(self, call, wanted).await
    }

    async fn answers(&self, parts: &Parts) -> Result<(), Error> {
        self.tenant(parts, 0).await.map(drop)
    }

    fn triggered(call: &Call) -> Option<Arc<Triggered>> {
        call.triggered.clone()
    }
}
