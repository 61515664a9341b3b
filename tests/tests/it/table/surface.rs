//! The tables of the surface, printed and committed: the operations, and which role may call them.

use std::{env, fs, path::PathBuf};

use domain::{rights::permits, role::ROLES};
use proto::operation::{Body, Facts, OPERATIONS, Waived};
use tests::{client::send, tenant::Shared};

fn same_as_committed(name: &str, printed: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder can be made");
        fs::write(&path, printed).expect("the file can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == printed, "{name} is not true any more; `make bless` accepts this:\n{printed}");
}

/// Returns the permission that the caller needs, except for what is its own.
fn needed(facts: &Facts) -> String {
    let own = match facts.waived {
        Waived::Never => "",
        Waived::Own => "(self)",
        Waived::ByToken => "(by token)",
    };
    [facts.permission.unwrap_or_default(), own].join(" ").trim().to_owned()
}

#[test]
fn every_operation_has_a_permission_or_is_for_everybody_who_is_known() {
    let mut table = format!("{:<34} {:<28}", "operation", "permission");
    table.extend(ROLES.iter().map(|role| format!(" {:<17}", role.name)));
    table.push('\n');
    for facts in OPERATIONS {
        let permission = needed(facts);
        let line = format!("{:<34} {permission:<28}", facts.method);
        let roles = ROLES.iter().map(|role| {
            let may = facts.permission.is_none_or(|permission| permits([role.name], permission));
            format!(" {:<17}", if may { "yes" } else { "-" })
        });
        table.push_str((line + &roles.collect::<String>()).trim_end());
        table.push('\n');
        assert!(
            facts.permission.is_none_or(|permission| ROLES.iter().any(|role| permits([role.name], permission))),
            "no role gives {permission}"
        );
    }
    let table: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    same_as_committed("permissions.txt", &table);
}

#[tokio::test]
async fn every_route_is_the_committed_one() {
    let shared = Shared::find().await;
    let client = shared.client().await;
    let mut table = String::new();
    for facts in OPERATIONS {
        let verb = facts.verb.method();
        let method = verb.parse().expect("it is a method");
        let answer = send(client.anonymous(method, &facts.path.replace("{id}", "1"))).await;
        let built = match answer.status.as_u16() {
            401 => "built",
            501 => "not built",
            other => panic!("{} answers {other}", facts.method),
        };
        let body = match facts.body {
            Body::None => "-",
            Body::Field { name, .. } => name,
        };
        let (path, feature, success) = (facts.path, facts.feature.unwrap_or("-"), facts.success);
        let permission = needed(facts);
        let line = format!(
            "{verb:<6} {path:<50} {success} {built:<9} {permission:<23} {feature:<26} {body:<9} {}\n",
            facts.grpc
        );
        table.push_str(&line);
    }
    same_as_committed("routes.txt", &table);
}
