//! The rows of web keys.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::{InIdsFilter, ListQuery, NameFilter, TextFilterMethod},
    operation::{ACTIVATE_WEB_KEY, CREATE_WEB_KEY, DELETE_WEB_KEY, GET_WEB_KEY, SEARCH_WEB_KEYS},
    web_key::{
        ActivateWebKeyRequest, CreateWebKeyRequest, DeleteWebKeyRequest, EcdsaCurve, EcdsaWebKey, Ed25519WebKey,
        GetWebKeyRequest, RsaWebKey, SearchWebKeysRequest, WebKey, WebKeyFieldName, WebKeySearchFilter, web_key::Type,
        web_key_search_filter::Filter,
    },
};
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::send;

use super::{
    posted,
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const KEYS: &str = "/resources/v3alpha/web_keys";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        row(&ACTIVATE_WEB_KEY, a_key).good("a key", |it| ActivateWebKeyRequest { id: it.id.clone() }).done(),
        row(&DELETE_WEB_KEY, a_key)
            .good("a key", |it| DeleteWebKeyRequest { id: it.id.clone() })
            .bad("one that signs", "PRECONDITION_FAILED", |it| DeleteWebKeyRequest { id: it.others[0].clone() })
            .done(),
        row(&GET_WEB_KEY, a_key).good("a key", |it| GetWebKeyRequest { id: it.id.clone() }).done(),
        search(),
    ]
}

/// Creates a key without activating it, in addition to the initial one of the instance. Keys of earlier rows are
/// deleted, because an instance may have only a few.
fn a_key(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let found = posted(world, &format!("{KEYS}/_search"), &json!([])).await;
        let found = found.body["result"].as_array().expect("there are some").clone();
        let id = |key: &Value| key["details"]["id"].as_str().expect("it has one").to_owned();
        for old in found.iter().filter(|key| key["state"] == "WEB_KEY_STATE_INITIAL") {
            // What is deleted already is found a moment longer.
            send(world.owner.request(Method::DELETE, &format!("{KEYS}/{}", id(old)))).await;
        }
        let signs = |key: &&Value| key["algorithm"] == "ES256" && key["state"] == "WEB_KEY_STATE_ACTIVE";
        let first = found.iter().find(signs).map(id).expect("one signs");
        subject(&posted(world, KEYS, &json!({ "ed25519": {} })).await).naming([first])
    }
    .boxed()
}

fn of(r#type: Type) -> CreateWebKeyRequest {
    CreateWebKeyRequest { key: Some(WebKey { r#type: Some(r#type) }) }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_WEB_KEY, a_key)
        .good("Ed25519", |_| of(Type::Ed25519(Ed25519WebKey {})))
        .good("a curve", |_| of(Type::Ecdsa(EcdsaWebKey { curve: EcdsaCurve::P384.into() })))
        .good("RSA", |_| of(Type::Rsa(RsaWebKey::default())))
        .bad("nothing", "INVALID_REQUEST", |_| CreateWebKeyRequest { key: None })
        .bad("no type", "INVALID_REQUEST", |_| CreateWebKeyRequest { key: Some(WebKey { r#type: None }) })
        .done()
}

fn search_request(filters: Vec<Filter>) -> SearchWebKeysRequest {
    let filters = filters.into_iter().map(|filter| WebKeySearchFilter { filter: Some(filter) }).collect();
    SearchWebKeysRequest { filters, ..SearchWebKeysRequest::default() }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_WEB_KEYS, a_key)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("by algorithm", |_| {
            let name = "EdDSA".to_owned();
            search_request(vec![Filter::Algorithm(NameFilter { name, method: TextFilterMethod::Equals.into() })])
        })
        .good("a page in another order", |it| SearchWebKeysRequest {
            query: Some(ListQuery { offset: 0, limit: 2, asc: true }),
            sorting_column: WebKeyFieldName::Algorithm.into(),
            ..search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchWebKeysRequest {
            filters: vec![WebKeySearchFilter { filter: None }],
            ..search_request(vec![])
        })
        .done()
}
