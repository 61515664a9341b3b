//! The context of a request: what it says of it, and whether its caller may be there.

use std::sync::Arc;

use domain::{
    context::{Owner, OwnerType},
    permission,
    rejection::Rejection,
    standard::Resource,
};
use proto::object::{RequestContext, request_context::ResourceOwner};
use store::directory::{Named, Tenant};

use crate::{
    edge::{Call, Edge, permission_denied, read_model},
    error::Error,
};

impl Edge {
    /// The call, once its body says what it is about.
    ///
    /// # Errors
    /// Where there is no such context, or the caller may not know of it or not do this there.
    pub(crate) async fn within(&self, mut call: Call, wanted: Option<&RequestContext>) -> Result<Call, Error> {
        let named = wanted.and_then(|wanted| wanted.resource_owner.as_ref());
        let (context, tenant) = match self.locate(&call, named, call.consistency.required).await {
            Err(refused) if self.knows_more(refused.reason(), call.consistency).await => {
                let seen = call.consistency.seen();
                call.caller = self.caller(&call.home, &call.token, seen).await?;
                self.locate(&call, named, seen).await?
            }
            located => located?,
        };
        let by_operator = |needed: &str| needed.starts_with("system.") || call.caller.may(needed, &[Owner::system()]);
        let by_operator = call.operation.permission.is_some_and(by_operator) || context.kind == OwnerType::System;
        // What an instance executes neither hears nor says what is done with rights that are above its own.
        let triggered = call.triggered.filter(|_| !by_operator);
        if call.operation.of_organization && context.kind != OwnerType::Organization {
            return Err(Rejection::invalid("ctx", "must name an organization").into());
        }
        Ok(Call { tenant, context, triggered, ..call })
    }

    /// The context that a call names, and the instance that it is in, as of a sequence or later.
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
                if let Some(needed) = call.operation.permission.filter(|_| !call.may(&context)) {
                    return Err(permission_denied(needed));
                }
                Ok((context, call.tenant.clone()))
            }
            Some(ResourceOwner::InstanceId(id)) if *id == call.tenant.id => Ok(own()),
            Some(ResourceOwner::InstanceId(id)) => self.elsewhere(call, Named::Id(id.clone()), sequence).await,
            Some(ResourceOwner::InstanceDomain(name)) => {
                self.elsewhere(call, Named::Domain(name.to_ascii_lowercase()), sequence).await
            }
            Some(ResourceOwner::OrgId(id)) => organization(Named::Id(id.clone())).await,
            Some(ResourceOwner::OrgDomain(name)) => organization(Named::Domain(name.to_ascii_lowercase())).await,
            None => match (
                call.organization.clone().filter(|_| call.operation.has_context()),
                call.operation.of_organization,
            ) {
                (Some(id), _) => organization(Named::Id(id)).await,
                (None, true) if call.is_system => {
                    let rule = "must name an organization, because system users belong to none";
                    Err(Rejection::invalid("ctx", rule).into())
                }
                (None, true) => Ok((call.caller.owner.clone(), call.tenant.clone())),
                (None, false) => Ok(own()),
            },
        }
    }

    /// Only operators of the platform are let into an instance that is not the one of the host.
    async fn elsewhere(&self, call: &Call, host: Named, sequence: u64) -> Result<(Owner, Arc<Tenant>), Error> {
        let found = self.directory.tenant(host, sequence).await.map_err(read_model)?;
        let may_enter = call.operation.permission.is_some_and(|needed| call.caller.may(needed, &[Owner::system()]));
        let is_home = |tenant: &Arc<Tenant>| tenant.id == call.home.id;
        let tenant = found.filter(|tenant| is_home(tenant) || may_enter).ok_or(Rejection::NotFound("instance"))?;
        Ok((Owner::instance(&tenant.id), tenant))
    }

    async fn organization(&self, call: &Call, name: Named, sequence: u64) -> Result<Owner, Error> {
        let unknown = || Error::from(Rejection::NotFound("organization"));
        let found = self.directory.organization(&call.tenant.id, name, sequence).await;
        let context = Owner::organization(&found.map_err(read_model)?.ok_or_else(unknown)?.id);
        if let Some(needed) = call.operation.permission {
            let chain = context.chain(&call.tenant.id);
            if !call.caller.may(needed, &chain) {
                let may_read = call.caller.may(&permission::reading(needed), &chain);
                return Err(if may_read { permission_denied(needed) } else { unknown() });
            }
        }
        Ok(context)
    }
}

impl Call {
    /// The instance that resources of a kind are kept in, that of the call; `None` where each is an instance itself.
    pub fn instance_for<R: Resource>(&self) -> Option<&str> {
        (R::context("", &Owner::system()).kind != OwnerType::Instance).then_some(&self.tenant.id)
    }

    /// The instance that a resource is kept in: an instance in itself, everything else in that of the call.
    pub fn instance_of<'a, R: Resource>(&'a self, id: &'a str) -> &'a str {
        self.instance_for::<R>().unwrap_or(id)
    }

    /// Whether the caller may do what the operation does to something in a context.
    pub fn may(&self, context: &Owner) -> bool {
        let permitted = |permission: &str| self.caller.may(permission, &context.chain(&self.tenant.id));
        self.operation.permission.is_none_or(permitted)
    }

    /// Where the caller may do what the operation does: everywhere in the instance (`None`), or in these contexts.
    pub fn places(&self) -> Option<Vec<Owner>> {
        let permission = self.operation.permission?;
        if self.may(&Owner::instance(&self.tenant.id)) {
            return None;
        }
        Some(self.caller.places(permission).cloned().collect())
    }
}
