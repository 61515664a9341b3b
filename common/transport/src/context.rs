//! The context of a request: what it says of it, and whether its caller may be there.

use std::sync::Arc;

use domain::{
    context::{Owner, OwnerType},
    permission,
    rejection::Rejection,
    standard::Resource,
};
use proto::object::{RequestContext, request_context::ResourceOwner};
use store::directory::{Host, Tenant};

use crate::{
    edge::{Call, Edge, permission_denied, read_model},
    error::Error,
};

impl Edge {
    /// The call, once its body says what it is about.
    ///
    /// # Errors
    /// Where there is no such context, or the caller may not know of it or not do this there.
    pub(crate) async fn within(&self, call: Call, wanted: Option<&RequestContext>) -> Result<Call, Error> {
        let named = wanted.and_then(|wanted| wanted.resource_owner.as_ref());
        let own = |call: Call| Call { context: Owner::instance(&call.tenant.id), ..call };
        let call = match named {
            Some(ResourceOwner::System(_)) => {
                let context = Owner::system();
                if let Some(needed) = call.operation.permission.filter(|_| !call.may(&context)) {
                    return Err(permission_denied(needed));
                }
                Call { context, ..call }
            }
            Some(ResourceOwner::InstanceId(id)) if *id == call.tenant.id => own(call),
            Some(ResourceOwner::InstanceId(id)) => self.elsewhere(call, Host::Id(id.clone())).await?,
            Some(ResourceOwner::InstanceDomain(name)) => {
                self.elsewhere(call, Host::Domain(name.to_ascii_lowercase())).await?
            }
            Some(ResourceOwner::OrgId(id)) => self.organization(call, Host::Id(id.clone())).await?,
            Some(ResourceOwner::OrgDomain(name)) => {
                self.organization(call, Host::Domain(name.to_ascii_lowercase())).await?
            }
            None => match (
                call.organization.clone().filter(|_| call.operation.has_context()),
                call.operation.of_organization,
            ) {
                (Some(id), _) => self.organization(call, Host::Id(id)).await?,
                (None, true) if call.is_system => {
                    let rule = "must name an organization, because system users belong to none";
                    return Err(Rejection::invalid("ctx", rule).into());
                }
                (None, true) => Call { context: call.caller.owner.clone(), ..call },
                (None, false) => own(call),
            },
        };
        let is_of_system = call.operation.permission.is_some_and(|permission| permission.starts_with("system."));
        let call = if is_of_system || call.context.kind == OwnerType::System || call.tenant.id != call.home.id {
            // What an instance executes has no say in what is above it or beside it.
            Call { triggered: None, ..call }
        } else {
            call
        };
        if call.operation.of_organization && call.context.kind != OwnerType::Organization {
            return Err(Rejection::invalid("ctx", "must name an organization").into());
        }
        Ok(call)
    }

    /// Only operators of the platform are let into an instance that is not the one of the host.
    async fn elsewhere(&self, call: Call, host: Host) -> Result<Call, Error> {
        let found = self.directory.tenant(host, call.consistency.required).await.map_err(read_model)?;
        let may_enter = call.operation.permission.is_some_and(|needed| call.caller.may(needed, &[Owner::system()]));
        let is_home = |tenant: &Arc<Tenant>| tenant.id == call.home.id;
        let tenant = found.filter(|tenant| is_home(tenant) || may_enter);
        let tenant = tenant.ok_or(Rejection::NotFound("instance"))?;
        Ok(Call { context: Owner::instance(&tenant.id), tenant, ..call })
    }

    async fn organization(&self, call: Call, name: Host) -> Result<Call, Error> {
        let unknown = || Error::from(Rejection::NotFound("organization"));
        let found = self.directory.organization(&call.tenant.id, name, call.consistency.required).await;
        let context = Owner::organization(&found.map_err(read_model)?.ok_or_else(unknown)?.id);
        if let Some(needed) = call.operation.permission {
            let chain = context.chain(&call.tenant.id);
            if !call.caller.may(needed, &chain) {
                let may_read = call.caller.may(&permission::reading(needed), &chain);
                return Err(if may_read { permission_denied(needed) } else { unknown() });
            }
        }
        Ok(Call { context, ..call })
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
