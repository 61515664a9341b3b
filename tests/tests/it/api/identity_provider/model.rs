//! Providers, policies and searches against a model that knows neither events nor indexes, read on a node that follows.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, done, send},
    cluster::Cluster,
    idp::IDPS,
};

use super::{CODEHOST_B, ORGANIZATIONS, codehost_b, organization, state};

/// How many changes are made, and how many of them between two looks at everything.
const STEPS: usize = 60;
const STEPS_A_LOOK: usize = 6;

/// The contexts: the instance, and two organizations of it.
struct Contexts {
    /// How requests name each of them, and what answers say of it.
    named: Vec<(String, Value)>,
}

/// A provider, as the model has it.
#[derive(Debug)]
struct Model {
    /// The place of the context that it belongs to.
    owner: usize,
    is_on: bool,
    policies: BTreeMap<usize, &'static str>,
}

impl Model {
    /// Whether it is there in a context, and inherited.
    fn is_inherited(&self, context: usize) -> bool {
        self.owner == 0 && context != 0
    }

    fn is_there(&self, context: usize) -> bool {
        context == 0 || self.owner == context || self.owner == 0
    }

    fn is_active(&self, context: usize) -> bool {
        match self.policies.get(&context).filter(|_| self.is_inherited(context)) {
            Some(&"ACTIVATE") => true,
            Some(&"DEACTIVATE") => false,
            _ => self.is_on,
        }
    }

    fn shown(&self, context: usize, contexts: &Contexts) -> Value {
        let parent =
            self.is_inherited(context).then(|| json!({ "parent": contexts.named[0].1, "state": state(self.is_on) }));
        let policy = self.is_inherited(context).then(|| self.policies.get(&context).copied().unwrap_or("INHERIT"));
        let policy = policy.map(|policy| format!("STATE_POLICY_{policy}"));
        json!({ "state": state(self.is_active(context)), "parent": parent, "policy": policy })
    }
}

/// What the model knows of one that was read.
fn seen(found: &Value, common: &Value) -> Value {
    json!({ "state": found["state"], "parent": found.get("parent"), "policy": common.get("statePolicy") })
}

/// Changes something at random, and the model with it.
async fn step(
    admin: &Client,
    contexts: &Contexts,
    model: &mut BTreeMap<String, Model>,
    random: &mut fastrand::Rng,
) -> Answer {
    let ids: Vec<String> = model.keys().cloned().collect();
    let Some(id) = (!ids.is_empty()).then(|| ids[random.usize(..ids.len())].clone()) else {
        return create(admin, contexts, model, random).await;
    };
    let found = model.get_mut(&id).expect("it is known");
    match random.u8(..10) {
        0..3 => create(admin, contexts, model, random).await,
        3..5 => {
            found.is_on = !found.is_on;
            let to = if found.is_on { "reactivate" } else { "deactivate" };
            done(admin, &format!("{IDPS}/{id}/_{to}"), json!({})).await
        }
        5 => {
            model.remove(&id);
            send(admin.request(Method::DELETE, &format!("{IDPS}/{id}"))).await
        }
        _ => {
            let context = random.usize(1..contexts.named.len());
            let policy = ["ACTIVATE", "DEACTIVATE", "INHERIT"][random.usize(..3)];
            let path = format!("{CODEHOST_B}/{id}?{}", contexts.named[context].0);
            let body = json!({ "idp": { "statePolicy": format!("STATE_POLICY_{policy}") } });
            let answer = send(admin.request(Method::PATCH, &path).json(&body)).await;
            if found.is_inherited(context) {
                found.policies.insert(context, policy);
                assert_eq!(answer.status, 200, "{}", answer.body);
                return answer;
            }
            let expected = match (found.is_there(context), policy) {
                (false, _) => 404,
                (true, "INHERIT") => 200,
                (true, _) => 400,
            };
            assert_eq!(answer.status, expected, "{}", answer.body);
            done(admin, ORGANIZATIONS, json!({ "name": format!("refused {}", random.u64(..)) })).await
        }
    }
}

async fn create(
    admin: &Client,
    contexts: &Contexts,
    model: &mut BTreeMap<String, Model>,
    random: &mut fastrand::Rng,
) -> Answer {
    let owner = if random.bool() { 0 } else { random.usize(..contexts.named.len()) };
    let made = done(admin, &format!("{CODEHOST_B}?{}", contexts.named[owner].0), codehost_b("model")).await;
    model.insert(made.id(), Model { owner, is_on: true, policies: BTreeMap::new() });
    made
}

/// Everything must be as the model says it is, in a look that is as new as the last change.
async fn look(asking: &Client, last: &Answer, contexts: &Contexts, model: &BTreeMap<String, Model>) {
    for (context, (named, _)) in contexts.named.iter().enumerate() {
        let there = || model.iter().filter(|(_, found)| found.is_there(context));
        for (filter, wanted) in [(None, None), (Some(true), Some(true)), (Some(false), Some(false))] {
            let filters: Vec<Value> =
                filter.iter().map(|is_on| json!({ "state": { "state": state(*is_on) } })).collect();
            let search =
                asking.request(Method::POST, &format!("{IDPS}/_search?{named}&query.limit=1000")).json(&filters);
            let found = after(last, search).await;
            assert_eq!(found.status, 200, "{}", found.body);
            let result = found.body["result"].as_array().cloned().unwrap_or_default();
            let is_wanted = |found: &Model| wanted.is_none_or(|wanted| found.is_active(context) == wanted);
            let expected: BTreeMap<_, _> = there()
                .filter(|(_, found)| is_wanted(found))
                .map(|(id, found)| (id.clone(), found.shown(context, contexts)))
                .collect();
            let of = |found: &Value| {
                (found["details"]["id"].as_str().unwrap_or_default().to_owned(), seen(found, &found["idp"]))
            };
            let read: BTreeMap<_, _> = result.iter().map(of).collect();
            assert_eq!(read, expected, "{named}, {filter:?}");
            let total = found.body["details"]["totalResult"].as_str().unwrap_or("0");
            assert_eq!(total, expected.len().to_string(), "{named}, {filter:?}");
        }
        for (id, found) in model {
            let read = after(last, asking.request(Method::GET, &format!("{CODEHOST_B}/{id}?{named}"))).await;
            if found.is_there(context) {
                let read = &read.body["idp"];
                assert_eq!(seen(read, &read["idp"]["idp"]), found.shown(context, contexts), "{named}, {id}");
            } else {
                read.assert_refused("it is not there", 404, "RESOURCE_NOT_FOUND");
            }
        }
    }
}

#[tokio::test]
async fn states_parents_and_searches_are_those_of_a_naive_model_on_another_node() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (admin, asking) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&asking).await;
    let seed = fastrand::u64(..);
    println!("the seed is {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let instance = &cluster.bootstrap.instance_id;
    let mut named =
        vec![(format!("ctx.instanceId={instance}"), json!({ "type": "OWNER_TYPE_INSTANCE", "id": instance }))];
    for name in ["One", "Two"] {
        let id = organization(&admin, name).await;
        named.push((format!("ctx.orgId={id}"), json!({ "type": "OWNER_TYPE_ORG", "id": id })));
    }
    let (contexts, mut model) = (Contexts { named }, BTreeMap::new());
    let mut last = step(&admin, &contexts, &mut model, &mut random).await;
    for number in 1..=STEPS {
        let answer = step(&admin, &contexts, &mut model, &mut random).await;
        assert!(answer.status.is_success(), "{}", answer.body);
        // What changes nothing is answered with what is there already.
        if answer.sequence() > last.sequence() {
            last = answer;
        }
        if number % STEPS_A_LOOK == 0 {
            look(&asking, &last, &contexts, &model).await;
        }
    }
}
