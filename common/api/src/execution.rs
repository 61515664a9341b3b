//! Converts executions between the API and the core.

use domain::{
    column::Column,
    resource::execution::{Execution, column},
};
use index::{Filter, Method};
use proto::{
    Violation,
    action::{self, ExecutionSearchFilter, ExecutionType, GetExecution, execution_search_filter},
};
use view::rows::StoredResource;

use crate::{condition, details};

/// Converts the filter at an index of the request.
///
/// # Errors
/// If it has an empty condition.
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

/// Finds an id in a column of ids between spaces; a text that is not a number is not an id of anything that an
/// execution names.
fn names(column: &'static Column<Execution>, id: &str) -> Filter<Execution> {
    if !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Filter::Ids(vec![]);
    }
    Filter::text(column, Method::Contains, format!(" {id} "))
}

/// Returns the name of a kind of condition in the index.
fn kind_of(kind: ExecutionType) -> &'static str {
    match kind {
        ExecutionType::Unspecified => "unspecified",
        ExecutionType::Request => "request",
        ExecutionType::Response => "response",
        ExecutionType::Event => "event",
        ExecutionType::Function => "function",
    }
}

/// Converts an execution to the API.
pub fn to_proto(found: &StoredResource<Execution>) -> GetExecution {
    let Execution { condition, targets, includes } = found.state.clone();
    let execution = action::Execution { condition: Some(condition::write(&condition)), targets, includes };
    GetExecution { details: Some(details::of(found)), execution: Some(execution) }
}
