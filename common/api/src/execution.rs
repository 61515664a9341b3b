//! Executions in the API's words.

use domain::{
    column::Column,
    resource::execution::{Execution, column},
};
use index::{Filter, Method};
use proto::{
    Violation,
    action::{self, ExecutionSearchFilter, ExecutionType, GetExecution, execution_search_filter},
};
use view::rows::Found;

use crate::{condition, details};

/// What the filter at an index of the request finds.
///
/// # Errors
/// Where it names a condition that says nothing.
pub fn filter(instance_id: &str, index: usize, wanted: ExecutionSearchFilter) -> Result<Filter<Execution>, Violation> {
    use execution_search_filter::Filter as Wanted;
    Ok(match wanted.filter {
        Some(Wanted::InConditions(conditions)) => {
            let path = format!("filters[{index}].in_conditions.conditions");
            let conditions = conditions.conditions.into_iter().map(|wanted| condition::read(wanted, &path));
            Filter::Ids(
                conditions.map(|read| Ok(condition::id(instance_id, &read?))).collect::<Result<_, Violation>>()?,
            )
        }
        Some(Wanted::ExecutionType(kind)) => {
            Filter::text(&column::EXECUTION_TYPE, Method::Equals, kind_of(kind.r#type()).to_owned())
        }
        Some(Wanted::Target(target)) => names(&column::TARGETS, &target.id),
        Some(Wanted::Include(include)) => names(&column::INCLUDES, &include.include),
        // Validation has refused it.
        None => Filter::Ids(vec![]),
    })
}

/// The column holds ids with spaces between them; what is no number is no id of what an execution names.
fn names(column: &'static Column<Execution>, id: &str) -> Filter<Execution> {
    if !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Filter::Ids(vec![]);
    }
    Filter::text(column, Method::Contains, format!(" {id} "))
}

/// The name that the index has for a kind of condition.
fn kind_of(kind: ExecutionType) -> &'static str {
    match kind {
        ExecutionType::Unspecified => "unspecified",
        ExecutionType::Request => "request",
        ExecutionType::Response => "response",
        ExecutionType::Event => "event",
        ExecutionType::Function => "function",
    }
}

/// What clients see of an execution.
pub fn shown(found: &Found<Execution>) -> GetExecution {
    let Execution { condition, targets, includes } = found.state.clone();
    let execution = action::Execution { condition: Some(condition::write(&condition)), targets, includes };
    GetExecution { details: Some(details::of(found)), execution: Some(execution) }
}
