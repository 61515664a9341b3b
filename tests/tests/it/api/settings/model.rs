//! Settings of random contexts compared with a model without events and chains, on a lagging node.

use std::collections::BTreeMap;

use futures::join;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Answer, after, send},
    settings::{Property, Service, inside, of, property_read, services, to_set},
};

use crate::api::tree::Tree;

/// How many changes are made, and how many between two comparisons of everything.
const STEPS: usize = 80;
const STEPS_A_LOOK: usize = 10;

/// The settings of a service in a context: the values by their properties, and the sequence of the last change.
#[derive(Debug, Default)]
struct Own {
    values: BTreeMap<&'static str, Value>,
    sequence: Option<u64>,
}

/// The settings of each service, in each context.
type Model = BTreeMap<(&'static str, usize), Own>;

fn path(service: &Service) -> String {
    format!("/settings/v3alpha/{}", service.name)
}

/// Returns the contexts that have a service: two services do not exist for organizations.
fn levels(tree: &Tree, service: &Service) -> Vec<usize> {
    let is_for_all = !["domain", "oidc"].contains(&service.name);
    let has = |context: &usize| is_for_all || tree.contexts[*context].owner["type"] != "OWNER_TYPE_ORG";
    (0..tree.contexts.len()).filter(has).collect()
}

/// Sets or resets a random property, also in the model.
async fn step(tree: &Tree, services: &[Service], model: &mut Model, random: &mut fastrand::Rng) -> Answer {
    let service = &services[random.usize(..services.len())];
    let levels = levels(tree, service);
    let context = levels[random.usize(..levels.len())];
    let property = &service.properties[random.usize(..service.properties.len())];
    let value = match random.u8(..3) {
        0 => None,
        1 => Some(property.default.clone()),
        _ => Some(property.settable().clone()),
    };
    let change = inside(property.name, &value.as_ref().map_or_else(|| json!({ "reset": true }), to_set));
    let answer = send(tree.contexts[context].writes(Method::PATCH, &path(service)).json(&change)).await;
    assert_eq!(answer.status, 200, "{change}: {}", answer.body);
    let own = model.entry((service.name, context)).or_default();
    let before = match value {
        Some(value) if own.values.get(property.name) == Some(&value) => return answer,
        Some(value) => own.values.insert(property.name, value),
        None => own.values.remove(property.name),
    };
    if before.is_some() || own.values.contains_key(property.name) {
        own.sequence = Some(answer.sequence());
    }
    answer
}

/// Returns the effective property of a context: the nearest value that is set, with its owner.
fn expected(tree: &Tree, model: &Model, (service, context): (&'static str, usize), property: &Property) -> Value {
    let set = |at| model.get(&(service, at)).and_then(|own| own.values.get(property.name));
    let (at, value) = tree.chain(context).find_map(|at| Some((at, set(at)?))).unwrap_or((0, &property.default));
    property_read(value, (at != context).then(|| tree.contexts[at].owner.clone()))
}

fn reads(tree: &Tree, service: &Service, context: usize) -> RequestBuilder {
    let context = &tree.contexts[context];
    context.reading.request(Method::GET, &format!("{}?{}", path(service), context.query))
}

/// Compares everything with the model, by reads that are as new as the last change.
async fn compare(tree: &Tree, services: &[Service], model: &Model, last: &Answer) {
    for service in services {
        for context in levels(tree, service) {
            let case = format!("{} in {}", service.name, tree.contexts[context].query);
            let read = after(last, reads(tree, service, context)).await;
            assert_eq!(read.status, 200, "{case}: {}", read.body);
            for property in &service.properties {
                let expected = expected(tree, model, (service.name, context), property);
                assert_eq!(of(&read.body["settings"], property.name), &expected, "{case}: {}", property.name);
            }
            let sequence = model.get(&(service.name, context)).and_then(|own| own.sequence);
            let owner = &tree.contexts[if sequence.is_some() { context } else { 0 }].owner;
            let details = &read.body["details"];
            assert_eq!(details["sequence"], json!(sequence.map(|sequence| sequence.to_string())), "{case}");
            assert_eq!(&details["owner"], owner, "{case}");
        }
    }
}

#[tokio::test]
async fn values_owners_and_sequences_are_those_of_a_naive_model_on_a_node_that_lags() {
    let seed = fastrand::u64(..);
    println!("the seed is {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tree = Box::pin(Tree::start(&mut random)).await;
    let (services, mut model) = (services(), Model::default());
    let mut last: Option<Answer> = None;
    for _ in 0..STEPS / STEPS_A_LOOK {
        let is_held = random.bool();
        if is_held {
            tree.pause_projector().await;
        }
        let before = last.as_ref().map_or(0, Answer::sequence);
        for _ in 0..STEPS_A_LOOK {
            let answer = step(&tree, &services, &mut model, &mut random).await;
            // What changes nothing is answered with what is there already, which may be nothing.
            let sequence = answer.body["details"].get("sequence").map_or(0, |_| answer.sequence());
            if last.as_ref().is_none_or(|last| sequence > last.sequence()) && sequence > 0 {
                last = Some(answer);
            }
        }
        let Some(last) = &last else { continue };
        if !is_held {
            compare(&tree, &services, &model, last).await;
            continue;
        }
        if last.sequence() > before {
            tree.assert_lags(last, || reads(&tree, &services[0], 0)).await;
        }
        // What is read waits for what is held, until that goes on.
        join!(Box::pin(compare(&tree, &services, &model, last)), async { tree.go_on() });
    }
    assert!(last.is_some(), "something was changed");
}
