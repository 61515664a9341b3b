//! The rows of identity providers, which differ between types only in the configuration.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    idp::{
        CreateCodeHostAesidpRequest, CreateCodeHostAidpRequest, CreateCodeHostBSelfHostedIdpRequest,
        CreateCodeHostBidpRequest, CreateDirectoryAidpRequest, CreateJwtidpRequest, CreateLdapidpRequest,
        CreateOAuthIdpRequest, CreateOidcidpRequest, CreateSamlidpRequest, CreateSocialAidpRequest,
        CreateSocialBidpRequest, DeactivateIdpRequest, DeleteIdpRequest, GetCodeHostAesidpRequest,
        GetCodeHostAidpRequest, GetCodeHostBSelfHostedIdpRequest, GetCodeHostBidpRequest, GetDirectoryAidpRequest,
        GetJwtidpRequest, GetLdapidpRequest, GetOAuthIdpRequest, GetOidcidpRequest, GetSamlidpRequest,
        GetSocialAidpRequest, GetSocialBidpRequest, IdpFieldName, IdpIdFilter, IdpNameFilter, IdpSearchFilter,
        PatchCodeHostAesidpRequest, PatchCodeHostAidpRequest, PatchCodeHostBSelfHostedIdpRequest,
        PatchCodeHostBidpRequest, PatchDirectoryAidpRequest, PatchJwtidpRequest, PatchLdapidpRequest,
        PatchOAuthIdpRequest, PatchOidcidpRequest, PatchSamlidpRequest, PatchSocialAidpRequest, PatchSocialBidpRequest,
        ReactivateIdpRequest, SearchIdpsRequest, idp_search_filter::Filter,
    },
    object::{ListQuery, State, StateFilter, TextFilterMethod, request_context::ResourceOwner},
    operation::{DEACTIVATE_IDP, DELETE_IDP, REACTIVATE_IDP, SEARCH_IDPS},
    shape::Request,
};
use serde_json::{Value, json};
use tests::idp::{IDPS, config, other_config};

use super::{
    context, posted,
    row::{Check, Row, Subject, row},
    subject,
    wire::World,
};

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    let types = [
        of_type::<CreateCodeHostBidpRequest, PatchCodeHostBidpRequest, GetCodeHostBidpRequest>,
        of_type::<CreateOidcidpRequest, PatchOidcidpRequest, GetOidcidpRequest>,
        of_type::<CreateJwtidpRequest, PatchJwtidpRequest, GetJwtidpRequest>,
        of_type::<CreateLdapidpRequest, PatchLdapidpRequest, GetLdapidpRequest>,
        of_type::<CreateOAuthIdpRequest, PatchOAuthIdpRequest, GetOAuthIdpRequest>,
        of_type::<CreateDirectoryAidpRequest, PatchDirectoryAidpRequest, GetDirectoryAidpRequest>,
        of_type::<CreateCodeHostAidpRequest, PatchCodeHostAidpRequest, GetCodeHostAidpRequest>,
        of_type::<CreateCodeHostAesidpRequest, PatchCodeHostAesidpRequest, GetCodeHostAesidpRequest>,
        of_type::<
            CreateCodeHostBSelfHostedIdpRequest,
            PatchCodeHostBSelfHostedIdpRequest,
            GetCodeHostBSelfHostedIdpRequest,
        >,
        of_type::<CreateSocialAidpRequest, PatchSocialAidpRequest, GetSocialAidpRequest>,
        of_type::<CreateSocialBidpRequest, PatchSocialBidpRequest, GetSocialBidpRequest>,
        of_type::<CreateSamlidpRequest, PatchSamlidpRequest, GetSamlidpRequest>,
    ];
    types.iter().flat_map(|of_type| of_type()).chain(of_any_type()).collect()
}

/// Returns the type in the path of a request.
fn type_of<I: Request>() -> &'static str {
    I::OPERATION.facts.path.split('/').nth(4).expect("the path names the type")
}

fn an_idp<C: Request>(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let body = json!({ "idp": { "name": "conformance" }, "config": config(type_of::<C>()) });
        subject(&posted(world, &format!("{IDPS}/{}", type_of::<C>()), &body).await)
    }
    .boxed()
}

fn any(world: &World) -> BoxFuture<'_, Subject> {
    an_idp::<CreateCodeHostBidpRequest>(world)
}

fn one_that_is_off(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = any(world).await;
        subject(&posted(world, &format!("{IDPS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn request<I: Request>(body: Value) -> I {
    serde_json::from_value(body).expect("it is such a request")
}

fn options() -> Value {
    json!({
        "isLinkingAllowed": true, "isCreationAllowed": true, "isAutoCreation": true, "isAutoUpdate": true,
        "autoLinking": "AUTO_LINKING_OPTION_EMAIL",
    })
}

fn create<I: Request>(common: &Value, config: &Value) -> I {
    request(json!({ "idp": { "idp": common, "config": config } }))
}

fn patch<I: Request>(subject: &Subject, idp: &Value) -> I {
    request(json!({ "id": subject.id, "idp": idp }))
}

/// Returns the rows of a type. Refusals are alike for all types, and are tested for one.
fn of_type<C: Request, P: Request, G: Request>() -> Vec<Box<dyn Check + Sync>> {
    assert_ne!(config(type_of::<C>()), other_config(type_of::<C>()), "every member differs");
    let create = row(C::OPERATION, an_idp::<C>)
        .good("all members", |_| {
            let common = json!({ "name": "b", "options": options(), "statePolicy": "STATE_POLICY_INHERIT" });
            create(&common, &other_config(type_of::<C>()))
        })
        .good("others", |_| create(&json!({ "name": "a" }), &config(type_of::<C>())))
        .bad("nothing", "INVALID_REQUEST", |_| C::default());
    let patch = row(P::OPERATION, an_idp::<C>)
        .good("all members", |it| {
            let common = json!({ "name": "renamed", "options": options(), "statePolicy": "STATE_POLICY_INHERIT" });
            patch(it, &json!({ "idp": common, "config": other_config(type_of::<C>()) }))
        })
        .good("others, as they are", |it| patch(it, &json!({ "config": config(type_of::<C>()) })))
        .bad("nobody", "INVALID_REQUEST", |it| request(json!({ "id": it.id })));
    let get = row(G::OPERATION, an_idp::<C>).good("as it is", |it| request(json!({ "id": it.id })));
    if type_of::<C>() != "codehost_b" {
        return vec![create.alike().done(), patch.alike().done(), get.alike().done()];
    }
    vec![more_creates(create).done(), more_patches(patch).done(), more_gets(get).done()]
}

fn more_creates<C: Request>(row: Row<C, C::Response>) -> Row<C, C::Response> {
    row.bad("no configuration", "INVALID_REQUEST", |_| create(&json!({ "name": "a" }), &json!({})))
        .bad("a policy", "INVALID_REQUEST", |_| {
            let common = json!({ "name": "a", "statePolicy": "STATE_POLICY_ACTIVATE" });
            create(&common, &config(type_of::<C>()))
        })
        .bad("a name of control characters", "INVALID_REQUEST", |_| {
            create(&json!({ "name": "\u{7}" }), &config(type_of::<C>()))
        })
        .bad("a long secret", "INVALID_REQUEST", |_| {
            let mut config = config(type_of::<C>());
            config["clientSecret"] = json!("very secret ".repeat(20));
            create(&json!({ "name": "a" }), &config)
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| within(&json!({ "orgId": "1" })))
        .bad("in the system", "PERMISSION_DENIED", |_| within(&json!({ "system": true })))
}

/// Returns a request for a provider in a context.
fn within<C: Request>(context: &Value) -> C {
    let idp = json!({ "idp": { "name": "a" }, "config": config(type_of::<C>()) });
    request(json!({ "ctx": context, "idp": idp }))
}

fn more_patches<P: Request>(row: Row<P, P::Response>) -> Row<P, P::Response> {
    row.good("nothing", |it| patch(it, &json!({})))
        .good("no change", |it| {
            patch(it, &json!({ "idp": { "name": "conformance", "statePolicy": "STATE_POLICY_INHERIT" } }))
        })
        .bad("an empty name", "INVALID_REQUEST", |it| patch(it, &json!({ "idp": { "name": "" } })))
        .bad("a policy in its own context", "PRECONDITION_FAILED", |it| {
            patch(it, &json!({ "idp": { "statePolicy": "STATE_POLICY_DEACTIVATE" } }))
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |it| {
            request(json!({ "ctx": { "orgId": "1" }, "id": it.id, "idp": {} }))
        })
}

fn more_gets<G: Request>(row: Row<G, G::Response>) -> Row<G, G::Response> {
    row.bad("from an unknown organization", "RESOURCE_NOT_FOUND", |it| {
        request(json!({ "ctx": { "orgId": "1" }, "id": it.id }))
    })
}

fn of_any_type() -> Vec<Box<dyn Check + Sync>> {
    vec![
        row(&DEACTIVATE_IDP, any).good("one that is on", |it| DeactivateIdpRequest { id: it.id.clone() }).done(),
        row(&REACTIVATE_IDP, one_that_is_off)
            .good("one that is off", |it| ReactivateIdpRequest { id: it.id.clone() })
            .done(),
        row(&DELETE_IDP, any).good("one", |it| DeleteIdpRequest { id: it.id.clone() }).done(),
        searches(),
    ]
}

fn search(filters: Vec<Filter>) -> SearchIdpsRequest {
    let filters = filters.into_iter().map(|filter| IdpSearchFilter { filter: Some(filter) }).collect();
    SearchIdpsRequest { filters, ..SearchIdpsRequest::default() }
}

fn named(name: &str) -> Filter {
    Filter::Name(IdpNameFilter { name: name.into(), method: TextFilterMethod::EqualsIgnoreCase.into() })
}

fn searches() -> Box<dyn Check + Sync> {
    row(&SEARCH_IDPS, any)
        .good("by id", |it| search(vec![Filter::Id(IdpIdFilter { id: it.id.clone() })]))
        .good("everything", |_| search(vec![]))
        .good("a page of what is on, by name", |_| SearchIdpsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: IdpFieldName::Name.into(),
            ..search(vec![
                named("CONFORMANCE"),
                Filter::State(StateFilter { state: State::EffectiveStateActive.into() }),
            ])
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| SearchIdpsRequest {
            ctx: Some(context(ResourceOwner::OrgId("1".into()))),
            ..search(vec![])
        })
        .bad("in the system", "PERMISSION_DENIED", |_| SearchIdpsRequest {
            ctx: Some(context(ResourceOwner::System(true))),
            ..search(vec![])
        })
        .bad("a long name and no state", "INVALID_REQUEST", |_| {
            search(vec![named(&"x".repeat(201)), Filter::State(StateFilter { state: 0 })])
        })
        .done()
}
