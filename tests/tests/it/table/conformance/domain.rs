//! The rows of domains. Challenges are tested in `domain.rs`.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    domain::{
        CreateDomainRequest, DeleteDomainRequest, Domain, DomainFieldName, DomainSearchFilter, DomainValidationType,
        GetDomainRequest, PatchDomain, PatchDomainRequest, SearchDomainsRequest, SetAsPrimaryRequest, ValidateRequest,
        domain_search_filter::Filter,
    },
    object::{InIdsFilter, ListQuery, NameFilter, RequestContext, TextFilterMethod, request_context::ResourceOwner},
    operation::{CREATE_DOMAIN, DELETE_DOMAIN, GET_DOMAIN, PATCH_DOMAIN, SEARCH_DOMAINS, SET_AS_PRIMARY, VALIDATE},
};
use reqwest::Method;
use serde_json::json;
use tests::client::send;

use super::{
    context, new_name, organization, posted,
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const DOMAINS: &str = "/resources/v3alpha/domains";

/// Returns all rows. The domains belong to organizations, so that no host and no issuer changes.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_DOMAIN, a_domain).good("a domain", |it| DeleteDomainRequest { id: it.id.clone() }).done(),
        row(&GET_DOMAIN, a_domain).good("a domain", |it| GetDomainRequest { id: it.id.clone() }).done(),
        search(),
        row(&VALIDATE, a_verified_domain)
            .good("a verified one", |it| ValidateRequest {
                id: it.id.clone(),
                validation_type: by(DomainValidationType::Dns),
            })
            .bad("nowhere", "INVALID_REQUEST", |it| ValidateRequest { id: it.id.clone(), validation_type: 0 })
            .done(),
        row(&SET_AS_PRIMARY, a_verified_domain)
            .good("a verified one", |it| SetAsPrimaryRequest { id: it.id.clone() })
            .done(),
    ]
}

fn by(place: DomainValidationType) -> i32 {
    place.into()
}

fn host(of: &str) -> String {
    format!("{}.example", new_name(of).replace(' ', "-"))
}

fn a_domain(world: &World) -> BoxFuture<'_, Subject> {
    async move { subject(&posted(world, DOMAINS, &json!({ "domain": host("pending") })).await) }.boxed()
}

/// Creates a verified domain of an organization of its own.
fn a_verified_domain(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = organization::a_readable_organization(world).await;
        let body = json!({ "domain": host("verified"), "isVerified": true });
        let request = world.operator.request(Method::POST, &format!("{DOMAINS}?ctx.orgId={id}")).json(&body);
        subject(&send(request).await)
    }
    .boxed()
}

fn named(name: String) -> CreateDomainRequest {
    CreateDomainRequest { ctx: None, domain: Some(Domain { domain: name, is_verified: false }) }
}

fn within(owner: ResourceOwner) -> CreateDomainRequest {
    CreateDomainRequest { ctx: Some(context(owner)), ..named("never.example".into()) }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_DOMAIN, organization::a_readable_organization)
        .good("of the instance", |_| named(host("new")))
        .good("of an organization", |it| CreateDomainRequest {
            ctx: Some(context(ResourceOwner::OrgId(it.id.clone()))),
            ..named(host("new"))
        })
        .good("in punycode", |_| named(format!("xn--bcher-kva.{}", host("new"))))
        .bad("nothing", "INVALID_REQUEST", |_| CreateDomainRequest::default())
        .bad("no name", "INVALID_REQUEST", |_| named(String::new()))
        .bad("capital letters", "INVALID_REQUEST", |_| named("Acme.example".into()))
        .bad("a port", "INVALID_REQUEST", |_| named("acme.example:443".into()))
        .bad("a URL", "INVALID_REQUEST", |_| named("https://acme.example".into()))
        .bad("other letters", "INVALID_REQUEST", |_| named("bücher.example".into()))
        .bad("a long part", "INVALID_REQUEST", |_| named(format!("{}.example", "a".repeat(64))))
        .bad("a long name", "INVALID_REQUEST", |_| named(format!("{}example", "a.".repeat(124))))
        .bad("in the system", "PERMISSION_DENIED", |_| within(ResourceOwner::System(true)))
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| within(ResourceOwner::OrgId("1".into())))
        .bad("in an unknown domain", "RESOURCE_NOT_FOUND", |_| within(ResourceOwner::OrgDomain("x.example".into())))
        .bad("not validated", "PERMISSION_DENIED", |_| CreateDomainRequest {
            ctx: None,
            domain: Some(Domain { domain: host("new"), is_verified: true }),
        })
        .done()
}

fn renamed(subject: &Subject, domain: Option<String>) -> PatchDomainRequest {
    PatchDomainRequest { id: subject.id.clone(), domain: Some(PatchDomain { domain }) }
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_DOMAIN, a_domain)
        .good("a name", |it| renamed(it, Some(format!("renamed-{}.example", it.id))))
        .good("nothing", |it| renamed(it, None))
        .bad("no domain", "INVALID_REQUEST", |it| PatchDomainRequest { id: it.id.clone(), domain: None })
        .bad("an empty name", "INVALID_REQUEST", |it| renamed(it, Some(String::new())))
        .bad("no name of a host", "INVALID_REQUEST", |it| renamed(it, Some("-.example".into())))
        .done()
}

fn search_request(ctx: Option<RequestContext>, filters: Vec<Filter>) -> SearchDomainsRequest {
    let filters = filters.into_iter().map(|filter| DomainSearchFilter { filter: Some(filter) }).collect();
    SearchDomainsRequest { ctx, filters, ..SearchDomainsRequest::default() }
}

fn by_name(name: &str, method: TextFilterMethod) -> Filter {
    Filter::Domain(NameFilter { name: name.into(), method: method.into() })
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_DOMAINS, a_domain)
        .good("by id", |it| search_request(None, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("what is verified", |_| search_request(None, vec![Filter::IsVerified(true)]))
        .good("what is not", |_| search_request(None, vec![Filter::IsVerified(false)]))
        .good("what is primary", |_| search_request(None, vec![Filter::IsPrimary(true)]))
        .good("nothing found", |_| search_request(None, vec![by_name("no such name", TextFilterMethod::Equals)]))
        .good("a page in another order", |_| SearchDomainsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: DomainFieldName::Domain.into(),
            ..search_request(None, vec![by_name(".EXAMPLE", TextFilterMethod::EndsWithIgnoreCase)])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchDomainsRequest {
            filters: vec![DomainSearchFilter { filter: None }],
            ..SearchDomainsRequest::default()
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            search_request(Some(context(ResourceOwner::OrgId("1".into()))), vec![])
        })
        .done()
}
