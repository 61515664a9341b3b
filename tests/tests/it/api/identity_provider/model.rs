//! Providers, policies and searches compared with a model without events and indexes, in a random tree of contexts and
//! on a lagging node.

use std::collections::BTreeMap;

use futures::join;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Answer, after, send},
    idp::IDPS,
};

use super::{CODEHOST_B, codehost_b, state};
use crate::api::tree::{Context, Tree};

/// How many changes are made, and how many between two comparisons of everything.
const STEPS: usize = 60;
const STEPS_A_LOOK: usize = 6;
/// How many providers a comparison gets one by one in each context.
const GETS: usize = 4;

/// A provider, as the model has it.
#[derive(Debug)]
struct Provider {
    /// The place of the context that it belongs to.
    owner: usize,
    is_on: bool,
    policies: BTreeMap<usize, &'static str>,
}

/// All providers, by their ids.
type Model = BTreeMap<String, Provider>;

impl Provider {
    /// Whether the provider is visible in a context by inheritance.
    fn is_inherited(&self, context: usize, tree: &Tree) -> bool {
        tree.chain(context).skip(1).any(|above| above == self.owner)
    }

    /// Whether the provider is visible in a context: as its own, from above, or from below.
    fn is_there(&self, context: usize, tree: &Tree) -> bool {
        self.is_inherited(context, tree) || tree.chain(self.owner).any(|above| above == context)
    }

    fn is_active(&self, context: usize, tree: &Tree) -> bool {
        if !self.is_inherited(context, tree) {
            return self.is_on;
        }
        match self.policies.get(&context) {
            Some(&"ACTIVATE") => true,
            Some(&"DEACTIVATE") => false,
            _ => self.is_active(tree.contexts[context].parent.expect("it is inherited"), tree),
        }
    }

    /// Returns the context whose clients request it for a context: from the system it is requested at the host of its
    /// own instance.
    fn asked_at<'a>(&self, context: usize, tree: &'a Tree) -> &'a Context {
        &tree.contexts[if context == 0 { self.owner } else { context }]
    }

    fn expected(&self, context: usize, tree: &Tree) -> Value {
        let from = tree.contexts[context].parent.filter(|_| self.is_inherited(context, tree));
        let parent =
            from.map(|from| json!({ "parent": tree.contexts[from].owner, "state": state(self.is_active(from, tree)) }));
        let policy =
            from.map(|_| format!("STATE_POLICY_{}", self.policies.get(&context).copied().unwrap_or("INHERIT")));
        json!({ "state": state(self.is_active(context, tree)), "parent": parent, "policy": policy })
    }
}

/// Returns the part of a provider that the model covers.
fn covered(found: &Value, common: &Value) -> Value {
    json!({ "state": found["state"], "parent": found.get("parent"), "policy": common.get("statePolicy") })
}

/// Makes a random change, also in the model; returns nothing where it was refused, as it had to be.
async fn step(tree: &Tree, model: &mut Model, random: &mut fastrand::Rng) -> Option<Answer> {
    let Some(id) = random.choice(model.keys().cloned().collect::<Vec<_>>()) else {
        return Some(create(tree, model, random).await);
    };
    let found = model.get_mut(&id).expect("it is known");
    let owner = &tree.contexts[found.owner].writing;
    let answer = match random.u8(..10) {
        0..3 => create(tree, model, random).await,
        3..5 => {
            found.is_on = !found.is_on;
            let to = if found.is_on { "reactivate" } else { "deactivate" };
            send(owner.request(Method::POST, &format!("{IDPS}/{id}/_{to}")).json(&json!({}))).await
        }
        5 => {
            model.remove(&id);
            send(owner.request(Method::DELETE, &format!("{IDPS}/{id}"))).await
        }
        _ => {
            let context = random.usize(..tree.contexts.len());
            let policy = ["ACTIVATE", "DEACTIVATE", "INHERIT"][random.usize(..3)];
            let body = json!({ "idp": { "statePolicy": format!("STATE_POLICY_{policy}") } });
            let path = format!("{CODEHOST_B}/{id}?{}", tree.contexts[context].query);
            let writing = &found.asked_at(context, tree).writing;
            let answer = send(writing.request(Method::PATCH, &path).json(&body)).await;
            let expected = match (found.is_there(context, tree), policy) {
                (false, _) => 404,
                (true, "INHERIT") => 200,
                (true, _) if found.is_inherited(context, tree) => 200,
                (true, _) => 400,
            };
            assert_eq!(answer.status, expected, "{policy} in {context} of {found:?}: {}", answer.body);
            if found.is_inherited(context, tree) {
                found.policies.insert(context, policy);
            }
            return (expected == 200).then_some(answer);
        }
    };
    assert!(answer.status.is_success(), "{}", answer.body);
    Some(answer)
}

async fn create(tree: &Tree, model: &mut Model, random: &mut fastrand::Rng) -> Answer {
    let owner = random.usize(..tree.contexts.len());
    let made = send(tree.contexts[owner].writes(Method::POST, CODEHOST_B).json(&codehost_b("model"))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    model.insert(made.id(), Provider { owner, is_on: true, policies: BTreeMap::new() });
    made
}

/// Returns a search for all providers in a context, or for those that are active or inactive.
fn search(Context { reading, query, .. }: &Context, is_on: Option<bool>) -> RequestBuilder {
    let filters: Vec<Value> = is_on.iter().map(|is_on| json!({ "state": { "state": state(*is_on) } })).collect();
    reading.request(Method::POST, &format!("{IDPS}/_search?{query}&query.limit=1000")).json(&filters)
}

/// Compares everything with the model, by reads that are as new as the last change.
async fn compare(tree: &Tree, model: &Model, last: &Answer, random: &mut fastrand::Rng) {
    for (at, context) in tree.contexts.iter().enumerate() {
        for wanted in [None, Some(true), Some(false)] {
            let found = after(last, search(context, wanted)).await;
            assert_eq!(found.status, 200, "{}", found.body);
            let result = found.body["result"].as_array().cloned().unwrap_or_default();
            let is_wanted = |found: &Provider| wanted.is_none_or(|wanted| found.is_active(at, tree) == wanted);
            let expected: BTreeMap<_, _> = model
                .iter()
                .filter(|(_, found)| found.is_there(at, tree) && is_wanted(found))
                .map(|(id, found)| (id.clone(), found.expected(at, tree)))
                .collect();
            let of = |found: &Value| {
                (found["details"]["id"].as_str().unwrap_or_default().to_owned(), covered(found, &found["idp"]))
            };
            let read: BTreeMap<_, _> = result.iter().map(of).collect();
            assert_eq!(read, expected, "{}, {wanted:?}", context.query);
            let total = found.body["details"]["totalResult"].as_str().unwrap_or("0");
            assert_eq!(total, expected.len().to_string(), "{}, {wanted:?}", context.query);
        }
        for (id, found) in random.choose_multiple(model.iter(), GETS) {
            let path = format!("{CODEHOST_B}/{id}?{}", context.query);
            let read = after(last, found.asked_at(at, tree).reading.request(Method::GET, &path)).await;
            if found.is_there(at, tree) {
                let read = &read.body["idp"];
                assert_eq!(covered(read, &read["idp"]["idp"]), found.expected(at, tree), "{path}");
            } else {
                read.assert_refused("it is not there", 404, "RESOURCE_NOT_FOUND");
            }
        }
    }
}

#[tokio::test]
async fn states_parents_and_searches_are_those_of_a_naive_model_on_a_node_that_lags() {
    let seed = fastrand::u64(..);
    println!("the seed is {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tree = Box::pin(Tree::start(&mut random)).await;
    let mut model = Model::new();
    let mut last = create(&tree, &mut model, &mut random).await;
    for _ in 0..STEPS / STEPS_A_LOOK {
        let is_held = random.bool();
        if is_held {
            tree.pause_projector().await;
        }
        let before = last.sequence();
        for _ in 0..STEPS_A_LOOK {
            let answer = step(&tree, &mut model, &mut random).await;
            // What changes nothing is answered with what is there already.
            last = answer.filter(|answer| answer.sequence() > last.sequence()).unwrap_or(last);
        }
        if is_held && last.sequence() > before {
            tree.assert_lags(&last, || search(&tree.contexts[0], None)).await;
        }
        // What is read waits for what is held, until that goes on.
        join!(Box::pin(compare(&tree, &model, &last, &mut random)), async { tree.go_on() });
    }
}
