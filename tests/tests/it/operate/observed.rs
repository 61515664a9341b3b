//! The document about metrics, dashboards and alerts use the metrics that a running platform exposes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tests::{
    endpoint::{Endpoint, execute},
    eventually,
    management::{Kind, Management, family},
    platform::Platform,
};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).expect("it is there")
}

/// Returns the metrics of the platform and of the process that an expression names.
fn named(expression: &str) -> BTreeSet<String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = expression.split(|char| !is_part(char));
    let is_ours = |word: &&str| word.starts_with("platform_") || word.starts_with("process_");
    words.filter(is_ours).map(str::to_owned).collect()
}

/// Returns the metrics of a platform that has served and written.
async fn exposed(management: &Management) -> BTreeMap<String, Kind> {
    let probe = || async {
        let kinds = management.kinds().await;
        let is_counted = kinds["platform_index_documents"].labels.len() == 1;
        is_counted.then_some(kinds)
    };
    eventually("everything is measured", probe).await
}

/// Returns the table of the document.
fn documented() -> BTreeMap<String, Kind> {
    let document = read("docs/observability.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split_once('`'));
    let metrics = rows.filter(|(name, _)| !named(name).is_empty());
    let kinds = metrics.map(|(name, rest)| {
        let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
        let labels = cells[2].split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        assert!(!cells[3].is_empty(), "{name} has a meaning");
        (name.to_owned(), Kind { kind: cells[1].to_owned(), labels })
    });
    kinds.collect()
}

#[tokio::test]
async fn document_dashboard_and_alerts_name_what_there_is() {
    let platform = Platform::start().await;
    platform.ready().await;
    let client = platform.client().await;
    let endpoint = Endpoint::start().await;
    let (hook, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    execute(&client, json!({ "event": { "all": true } }), &[&hook]).await;
    client.create_target("one").await.expect("it writes");
    let delivered = || async { (platform.management().sum("platform_deliveries_total", &[]).await > 0.).then_some(()) };
    eventually("an event is delivered", delivered).await;
    let exposed = exposed(&platform.management()).await;
    assert!(exposed.len() > 40, "{exposed:?}");

    let documented = documented();
    for (name, kind) in &exposed {
        assert_eq!(documented.get(name), Some(kind), "{name} in docs/observability.md");
    }
    let unknown: Vec<_> = documented.keys().filter(|name| !exposed.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "docs/observability.md explains what is not there: {unknown:?}");

    let dashboard: Value = serde_json::from_str(&read("deploy/observability/dashboard.json")).expect("it is JSON");
    let mut used = BTreeSet::new();
    for text in expressions(&dashboard).into_iter().chain(alerts().into_iter().map(|alert| alert.expr)) {
        let metrics = named(&text);
        let unknown: Vec<_> = metrics.iter().filter(|name| !exposed.contains_key(&family(name, &exposed))).collect();
        assert!(unknown.is_empty(), "{text} names what is not there: {unknown:?}");
        used.extend(metrics.iter().map(|name| family(name, &exposed)));
    }
    let unseen: Vec<_> = exposed.keys().filter(|name| !used.contains(*name)).collect();
    assert!(unseen.is_empty(), "nobody would see these: {unseen:?}");
}

/// Returns every expression of a dashboard.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let mut expressions = vec![];
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().filter(|targets| !targets.is_empty());
        for target in targets.unwrap_or_else(|| panic!("a panel shows nothing: {panel}")) {
            expressions.push(target["expr"].as_str().expect("a target has an expression").to_owned());
        }
    }
    expressions
}

/// An alerting rule.
#[derive(Debug, Default)]
struct Alert {
    name: String,
    expr: String,
    lines: Vec<String>,
}

/// Parses the alerting rules line by line: promtool, where it is installed, knows all of YAML.
fn alerts() -> Vec<Alert> {
    let mut alerts: Vec<Alert> = vec![];
    for line in read("deploy/observability/alerts.yml").lines() {
        if let Some(name) = line.strip_prefix("      - alert: ") {
            alerts.push(Alert { name: name.to_owned(), ..Alert::default() });
        } else if let Some(alert) = alerts.last_mut() {
            if let Some(expr) = line.strip_prefix("        expr: ") {
                expr.clone_into(&mut alert.expr);
            }
            alert.lines.push(line.to_owned());
        }
    }
    alerts
}

#[test]
fn every_alert_is_whole() {
    let alerts = alerts();
    assert!(alerts.len() > 15, "{alerts:?}");
    let operations = read("docs/operations.md");
    for alert in alerts.iter().filter(|alert| alert.lines.iter().any(|line| line.contains("docs/failed-events.md"))) {
        assert!(
            operations.contains(&format!("| `{}` |", alert.name)),
            "docs/operations.md says what to do at {}",
            alert.name
        );
    }
    let names: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    assert_eq!(names.len(), alerts.len(), "no name is there twice");
    for Alert { name, expr, lines } in &alerts {
        assert!(name.starts_with("Platform"), "{name}");
        let text = expr.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        let balanced = |open, close| expr.matches(open).count() == expr.matches(close).count();
        assert!(text.is_some() && balanced('(', ')') && balanced('{', '}') && balanced('[', ']'), "{name}: {expr}");
        for member in
            ["        for: ", "        labels: { severity: ", "          summary: '", "          description: '"]
        {
            let found = lines.iter().filter(|line| line.starts_with(member)).count();
            assert_eq!(found, 1, "{name} has one {}", member.trim());
        }
    }
    match Command::new("promtool").args(["check", "rules"]).arg(file("deploy/observability/alerts.yml")).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => println!("promtool is not here; only the structure was looked at"),
    }
}
