//! Executions that include others: what may include what, and the targets in the order in which they are called.

use std::collections::{HashMap, HashSet};

use super::Execution;
use crate::rejection::Rejection;

/// The most levels of includes.
pub const MOST_LEVELS: usize = 3;

/// The most targets that an execution calls.
pub const MOST_TARGETS: usize = 1000;

/// Executions by id.
pub type Graph<'a> = HashMap<&'a str, &'a Execution>;

/// Refuses includes that form a cycle, are deeper than [`MOST_LEVELS`], or lead to too many targets, from any of the
/// executions.
pub fn check(graph: &Graph<'_>) -> Result<(), Rejection> {
    let mut known = HashMap::new();
    for id in graph.keys() {
        extent(graph, &mut known, id)?;
    }
    Ok(())
}

/// The depth of the includes of an execution, and the number of targets that it calls.
#[derive(Clone, Copy)]
struct Extent {
    levels: usize,
    targets: usize,
}

/// Computes the extent of an execution. `None` marks executions in progress; each one is visited once.
fn extent<'a>(
    graph: &Graph<'a>,
    known: &mut HashMap<&'a str, Option<Extent>>,
    id: &'a str,
) -> Result<Extent, Rejection> {
    match known.get(id) {
        Some(Some(reach)) => return Ok(*reach),
        Some(None) => return Err(Rejection::Precondition("the includes form a cycle")),
        None => {}
    }
    let Some(execution) = graph.get(id) else { return Ok(Extent { levels: 0, targets: 0 }) };
    known.insert(id, None);
    let mut all = Extent { levels: 0, targets: execution.targets.len() };
    for include in &execution.includes {
        let Extent { levels, targets } = extent(graph, known, include)?;
        all.levels = all.levels.max(levels + 1);
        all.targets = all.targets.saturating_add(targets);
    }
    if all.levels > MOST_LEVELS {
        return Err(Rejection::Precondition("the includes are nested more than three levels deep"));
    }
    if all.targets > MOST_TARGETS {
        return Err(Rejection::Precondition("an execution and its includes have more than 1000 targets"));
    }
    known.insert(id, Some(all));
    Ok(all)
}

/// Whether the includes of an execution lead to another one.
pub fn leads_to(graph: &Graph<'_>, execution: &Execution, id: &str) -> bool {
    leads_within(graph, execution, id, MOST_LEVELS)
}

fn leads_within(graph: &Graph<'_>, execution: &Execution, id: &str, levels: usize) -> bool {
    let leads_on = |include: &String| {
        let next = graph.get(include.as_str());
        include == id || levels > 1 && next.is_some_and(|next| leads_within(graph, next, id, levels - 1))
    };
    execution.includes.iter().any(leads_on)
}

/// Returns the ids of the targets that an execution calls: its own, then those of its includes in order. Executions
/// that another version wrote may exceed the limits; what exceeds them is not followed.
pub fn targets<'a>(graph: &Graph<'a>, execution: &'a Execution) -> Vec<&'a str> {
    let mut found = vec![];
    let mut barren = HashSet::new();
    collect(graph, execution, 0, &mut barren, &mut found);
    found.truncate(MOST_TARGETS);
    found
}

/// An execution that contributes no targets at a level is visited once, so that each step finds something.
fn collect<'a>(
    graph: &Graph<'a>,
    execution: &'a Execution,
    level: usize,
    barren: &mut HashSet<(usize, &'a str)>,
    found: &mut Vec<&'a str>,
) {
    found.extend(execution.targets.iter().map(String::as_str));
    if level == MOST_LEVELS {
        return;
    }
    for id in execution.includes.iter().map(String::as_str) {
        let before = found.len();
        if before >= MOST_TARGETS {
            return;
        }
        if let Some(included) = graph.get(id)
            && !barren.contains(&(level, id))
        {
            collect(graph, included, level + 1, barren, found);
            if found.len() == before {
                barren.insert((level, id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::execution::{Calls, Condition};

    fn executions(includes: &[(&str, &[&str])]) -> Vec<(String, Execution)> {
        let owned = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
        let execution = |id: &str, includes: &[&str]| Execution {
            condition: Condition::Request(Calls::Method(id.to_owned())),
            targets: owned(&[&format!("t{id}")]),
            includes: owned(includes),
        };
        includes.iter().map(|(id, includes)| ((*id).to_owned(), execution(id, includes))).collect()
    }

    fn graph(executions: &[(String, Execution)]) -> Graph<'_> {
        executions.iter().map(|(id, execution)| (id.as_str(), execution)).collect()
    }

    #[test]
    fn includes_are_expanded_in_their_place() {
        let all = executions(&[("a", &["b", "d"]), ("b", &["c"]), ("c", &[]), ("d", &["c", "gone"])]);
        assert_eq!(check(&graph(&all)), Ok(()));
        assert_eq!(targets(&graph(&all), &all[0].1), ["ta", "tb", "tc", "td", "tc"]);
    }

    #[test]
    fn no_execution_calls_too_many_or_takes_long_to_find_none() {
        let many = |id: &str, includes: Vec<String>, targets: usize| {
            let condition = Condition::Request(Calls::Method(id.to_owned()));
            (id.to_owned(), Execution { condition, targets: vec!["t".to_owned(); targets], includes })
        };
        for leaves in [0, MOST_TARGETS] {
            let ids = |level: usize| (0..200).map(|number| format!("{level}.{number}")).collect::<Vec<_>>();
            let mut all = vec![many("a", ids(0), 0)];
            for level in 0..3 {
                let includes = if level < 2 { ids(level + 1) } else { vec![] };
                let targets = if level < 2 { 0 } else { leaves };
                all.extend(ids(level).iter().map(|id| many(id, includes.clone(), targets)));
            }
            assert_eq!(targets(&graph(&all), &all[0].1).len(), leaves);
            assert_eq!(check(&graph(&all)).is_ok(), leaves == 0);
        }
    }

    #[test]
    fn an_include_leads_over_three_levels() {
        let all = executions(&[("a", &["b"]), ("b", &["c"]), ("c", &["d"]), ("d", &["e"]), ("e", &[])]);
        let led_to = |id: &str| leads_to(&graph(&all), &all[0].1, id);
        assert_eq!(["a", "b", "c", "d", "e"].map(led_to), [false, true, true, true, false]);
    }

    #[test]
    fn three_levels_are_allowed_and_no_circle() {
        let three = executions(&[("a", &["b"]), ("b", &["c"]), ("c", &["d"]), ("d", &[])]);
        assert_eq!(check(&graph(&three)), Ok(()));
        let four = executions(&[("a", &["b"]), ("b", &["c"]), ("c", &["d"]), ("d", &["e"]), ("e", &[])]);
        assert!(check(&graph(&four)).is_err());
        assert_eq!(targets(&graph(&four), &four[0].1).len(), 4);
        for circle in [executions(&[("a", &["a"])]), executions(&[("a", &["b"]), ("b", &["a"])])] {
            assert!(check(&graph(&circle)).is_err());
        }
    }

    #[test]
    fn a_thousand_targets_are_allowed_and_no_more() {
        for (own, is_allowed) in [(MOST_TARGETS - 1, true), (MOST_TARGETS, false)] {
            let mut all = executions(&[("a", &["b"]), ("b", &[])]);
            all[0].1.targets = vec!["t".to_owned(); own];
            assert_eq!(check(&graph(&all)).is_ok(), is_allowed, "{own} and one included");
            assert_eq!(targets(&graph(&all), &all[0].1).len(), MOST_TARGETS);
        }
    }
}
