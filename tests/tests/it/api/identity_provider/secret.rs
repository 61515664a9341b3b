//! The secrets of providers are in no answer, and in no file of the platform.

use std::{fs, path::Path};

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{done, post, send},
    idp::IDPS,
    platform::Platform,
};

use super::{EVENTS, patched};

/// The files in a folder that have a text, and how many were looked at.
fn files_with(folder: &Path, text: &str) -> (Vec<String>, usize) {
    let (mut found, mut all) = (vec![], 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            let (inside, count) = files_with(&path, text);
            found.extend(inside);
            all += count;
        } else if let Ok(bytes) = fs::read(&path) {
            all += 1;
            let is_there = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            found.extend(is_there.then(|| path.display().to_string()));
        }
    }
    (found, all)
}

#[tokio::test]
async fn what_is_secret_is_in_no_answer_and_in_no_file() {
    let platform = Platform::start().await;
    platform.ready().await;
    let admin = platform.client().await;
    let secret = |number: usize| format!("canary-secret-{number}-of-a-provider");
    let told = "canary-client-id-of-a-provider";
    let config = |member: &str, number: usize| {
        let ldap = json!({
            "servers": ["ldap://a.example"], "baseDn": "a", "bindDn": told, "userBase": "dn", "userObjectClasses": ["a"],
            "userFilters": ["a"], member: secret(number),
        });
        let client = json!({ "clientId": told, "issuer": "https://a.example", member: secret(number) });
        if member == "bindPassword" { ldap } else { client }
    };
    let mut answers: Vec<Value> = vec![];
    for (number, (of, member)) in
        [("codehost_b_self_hosted", "clientSecret"), ("oidc", "clientSecret"), ("ldap", "bindPassword")]
            .into_iter()
            .enumerate()
    {
        let path = format!("{IDPS}/{of}");
        let made = done(&admin, &path, json!({ "idp": { "name": of }, "config": config(member, number) })).await;
        let one = format!("{path}/{}", made.id());
        answers.push(patched(&admin, &one, json!({ "config": { member: secret(number + 3) } })).await.body);
        answers.push(send(admin.request(Method::GET, &one)).await.body);
        let bad = json!({ "idp": { "name": of, "statePolicy": "STATE_POLICY_ACTIVATE" }, "config": config(member, number + 6) });
        answers.push(post(&admin, &path, bad).await.body);
    }
    answers.push(post(&admin, &format!("{IDPS}/_search"), json!([])).await.body);
    let events = post(&admin, EVENTS, json!([{ "aggregateType": "idp" }])).await.body;
    assert_eq!(events["details"]["totalResult"], "6", "{events}");
    answers.push(events);
    for answer in &answers {
        assert!(!answer.to_string().contains("canary-secret"), "{answer}");
    }
    let (found, all) = files_with(&platform.data(), told);
    let is_in = |part: &str| found.iter().any(|path| path.contains(part));
    assert!(is_in("nats") && is_in("postgres"), "what is no secret is found, so it is looked for rightly: {found:?}");
    for number in 0..9 {
        assert_eq!(files_with(&platform.data(), &secret(number)).0, [""; 0], "of {all} files");
    }
    assert_eq!(files_with(&platform.data(), "canary-secret").0, [""; 0], "of {all} files");
}
