//! Admission: from the headers of a request to a call, or to why there is none.
//!
//! Rights are read from a read model. What is read rests on rights that are as new as its token says. What is written is
//! decided on the log, so a write waits for what its caller has seen only before it is refused.

use std::sync::Arc;

use action::chain::Cause;
use domain::context::Owner;
use http::request::Parts;
use proto::operation::Facts;
use store::{
    database::Failure,
    directory::{Name, Standing, Tenant},
    trace,
};

use crate::{
    caller::Verified,
    consistency::{Consistency, OWN_WAIT, not_reached, waited},
    edge::{
        Call, Edge, ORGANIZATION, REQUEST_ID, feature_disabled, idempotency_key, is_open, one, permission_denied,
        read_model, text, trace_context, unheard,
    },
    error::{Error, Reason},
    precondition::IfMatch,
    prefer,
    trigger::{self, Triggered},
};

impl Edge {
    /// Admits a request to an operation: instance, caller, feature flag, permission, in this order.
    pub async fn admit(&self, operation: &'static Facts, parts: &Parts) -> Result<Call, Error> {
        let consistency = Consistency::of(&parts.headers, &self.tokens).await?;
        let tenant = match self.tenant(parts, consistency.required).await {
            Err(refused) if self.knows_more(refused.reason(), consistency).await => {
                self.tenant(parts, consistency.seen()).await?
            }
            tenant => tenant?,
        };
        let token = self.verifier.verify(&parts.headers, &tenant)?;
        let consistency = consistency.with_own(&self.tokens, &tenant.id, &token.user_id);
        if operation.only_reads() {
            self.insist(consistency).await?;
        }
        let admitted = (operation, parts);
        let (tenant, caller) = match self.rights(admitted, (&tenant, &token), consistency.required).await {
            Err(refused) if self.knows_more(refused.reason(), consistency).await => {
                self.rights(admitted, (&tenant, &token), consistency.seen()).await?
            }
            rights => rights?,
        };
        let trace_context = trace::context(trace_context(&parts.headers));
        let (depth, is_system) = (trigger::depth(&parts.headers)?, token.system.is_some());
        let cause = || Cause { depth, trace_context: trace_context.clone() };
        let triggered =
            if is_system { None } else { Triggered::of(&self.actions, operation, (&tenant, &caller), (parts, cause)) };
        Ok(Call {
            request_id: text(&parts.headers, REQUEST_ID).unwrap_or_default().to_owned(),
            operation,
            context: Owner::instance(&tenant.id),
            home: tenant.clone(),
            tenant,
            caller,
            token,
            is_system,
            consistency,
            idempotency_key: idempotency_key(&parts.headers)?,
            if_match: IfMatch::of(operation, &parts.headers),
            wait: prefer::wait(&parts.headers),
            trace_context,
            depth,
            triggered,
            organization: one(&parts.headers, ORGANIZATION)?.map(str::to_owned),
        })
    }

    /// The instance, if it may be used, and who holds a token, if that may do something with the operation; both as of a
    /// sequence or later.
    async fn rights(
        &self,
        (operation, parts): (&Facts, &Parts),
        (tenant, token): (&Arc<Tenant>, &Verified),
        sequence: u64,
    ) -> Result<(Arc<Tenant>, Arc<Standing>), Error> {
        let tenant = if tenant.processed < sequence { self.tenant(parts, sequence).await? } else { tenant.clone() };
        let caller = self.caller(&tenant, token, sequence).await?;
        if token.system.is_none() {
            is_open(&tenant, &self.ended)?;
        }
        if let Some(feature) = operation.feature
            && !tenant.has_feature(feature)
        {
            return Err(feature_disabled(feature));
        }
        // In which contexts it is needed is known when the body is.
        if let Some(permission) = operation.permission
            && caller.places(permission).next().is_none()
        {
            return Err(permission_denied(permission));
        }
        Ok((tenant, caller))
    }

    /// Who holds a token, as of a sequence or later.
    pub(crate) async fn caller(
        &self,
        tenant: &Tenant,
        token: &Verified,
        sequence: u64,
    ) -> Result<Arc<Standing>, Error> {
        if let Some(system) = &token.system {
            return Ok(system.clone());
        }
        if !self.ended.is_known() {
            return Err(unheard());
        }
        let sequence = sequence.max(token.sequence);
        let caller = self.directory.standing(&tenant.id, Name::Id(token.user_id.clone()), sequence).await;
        let is_dead =
            |standing: &Standing| self.ended.is_dead(&tenant.id, &standing.owner, &standing.id, token.sequence);
        let caller = caller.map_err(read_model)?.filter(|standing| standing.is_live && !is_dead(standing));
        caller.ok_or_else(|| Error::new(Reason::TokenInvalid, "the user of the access token is not active"))
    }

    /// Waits until rights are known as of what a read requires. While Postgres is away they are as old as without a token.
    async fn insist(&self, consistency: Consistency) -> Result<(), Error> {
        let required = consistency.required;
        match self.directory.reaches(required, consistency.left()).await {
            Ok(processed) if processed < required => {
                waited(consistency, None);
                Err(not_reached(required, processed))
            }
            Err(failure @ Failure::Inconsistent { .. }) => Err(read_model(Arc::new(failure))),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether more is known now than what a refusal may rest on: what the caller has seen is waited for a moment.
    pub(crate) async fn knows_more(&self, refused: Reason, consistency: Consistency) -> bool {
        let seen = consistency.seen();
        let rests_on_rights = matches!(
            refused,
            Reason::InstanceNotFound
                | Reason::InstanceInactive
                | Reason::InstanceBlocked
                | Reason::TokenInvalid
                | Reason::FeatureDisabled
                | Reason::PermissionDenied
                | Reason::ResourceNotFound
        );
        rests_on_rights
            && seen > 0
            && self.directory.reaches(seen, OWN_WAIT).await.is_ok_and(|processed| processed >= seen)
    }
}
