//! Filters of lists: an entry for each filter of the API, which gives it a field on the page.

use domain::failed_event::DELIVERIES;
use jiff::Timestamp;
use page::form::Form;
use serde_json::{Value, json};
use view::projection::PROJECTIONS;

/// A filter of a list.
pub(super) struct Filter {
    name: &'static str,
    label: &'static str,
    /// Converts a value to the filter of the API.
    wire: fn(&str) -> Value,
    /// The possible values, with their texts; empty if any value is possible.
    options: fn() -> Vec<(String, String)>,
}

/// The filters of failed events.
pub(super) const FAILED: &[Filter] = &[
    Filter { name: "instance", label: "Instance", wire: |text| json!({ "instanceId": text }), options: any },
    Filter { name: "view", label: "View", wire: |text| json!({ "viewName": text }), options: views },
    Filter { name: "type", label: "Aggregate type", wire: |text| json!({ "aggregateType": text }), options: any },
    Filter { name: "aggregate", label: "Aggregate", wire: |text| json!({ "aggregateId": text }), options: any },
    Filter { name: "target", label: "Target", wire: |text| json!({ "targetId": text }), options: any },
    Filter { name: "error", label: "Error contains", wire: |text| json!({ "errorMessage": text }), options: any },
    Filter { name: "since", label: "Failed since", wire: |text| failed(text, "GREATER_OR_EQUALS"), options: any },
    Filter { name: "before", label: "Failed before", wire: |text| failed(text, "LESS"), options: any },
    Filter { name: "state", label: "State", wire: |text| json!({ "state": text }), options: states },
];

/// The filters of failed events of one instance.
pub(super) const FAILED_OF_INSTANCE: &[Filter] = FAILED.split_at(1).1;

/// The filters of the log.
pub(super) const LOG: &[Filter] = &[
    Filter { name: "event", label: "Event type", wire: |text| json!({ "type": text }), options: any },
    Filter { name: "instance", label: "Instance", wire: |text| json!({ "instanceId": text }), options: any },
    Filter { name: "type", label: "Aggregate type", wire: |text| json!({ "aggregateType": text }), options: any },
    Filter { name: "aggregate", label: "Aggregate", wire: |text| json!({ "aggregateId": text }), options: any },
    Filter { name: "actor", label: "Actor", wire: |text| json!({ "actorId": text }), options: any },
];

/// A filter by the last failure. Seconds and zone may be left out; times are in UTC then, as on the page.
fn failed(text: &str, method: &str) -> Value {
    let text = text.trim().replacen(' ', "T", 1);
    let whole = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text,
    };
    json!({ "lastFailed": { "lastFailed": whole, "method": format!("TIMESTAMP_Filter_METHOD_{method}") } })
}

fn any() -> Vec<(String, String)> {
    vec![]
}

fn views() -> Vec<(String, String)> {
    let projections = PROJECTIONS.iter().map(|projection| projection.name);
    std::iter::once(DELIVERIES).chain(projections).map(|name| (name.to_owned(), name.to_owned())).collect()
}

fn states() -> Vec<(String, String)> {
    let named = |(state, text): (&str, &str)| (format!("FAILED_EVENT_STATE_{state}"), text.to_owned());
    [("FAILED", "Failed"), ("RETRYING", "Being retried"), ("DISCARDED", "Discarded")].map(named).to_vec()
}

/// A filter as a page shows it.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) options: Vec<(String, String)>,
}

/// The filters that are chosen for a list.
pub(super) struct Chosen {
    pub(super) fields: Vec<Field>,
    wire: Vec<Value>,
}

impl Chosen {
    /// Reads which of these filters a form has chosen.
    pub(super) fn of(filters: &[Filter], form: &Form) -> Self {
        let value = |filter: &Filter| form.get(filter.name).unwrap_or_default().to_owned();
        let field = |filter: &Filter| Field {
            name: filter.name,
            label: filter.label,
            value: value(filter),
            options: (filter.options)(),
        };
        let chosen = filters.iter().filter(|filter| !value(filter).is_empty());
        Self {
            fields: filters.iter().map(field).collect(),
            wire: chosen.map(|filter| (filter.wire)(&value(filter))).collect(),
        }
    }

    /// The filters for the API.
    pub(super) fn wire(&self) -> Value {
        Value::Array(self.wire.clone())
    }

    /// The filters for the API, with one more.
    pub(super) fn and(&self, filter: Value) -> Value {
        Value::Array(self.wire.iter().cloned().chain([filter]).collect())
    }

    /// The filters for the API, for what had failed by a time.
    pub(super) fn failed_by(&self, at: Timestamp) -> Value {
        self.and(failed(&at.to_string(), "LESS_OR_EQUALS"))
    }

    /// The filters for the API for what failed at a time or later, and the path of a list with the same filters.
    pub(super) fn failed_since(&self, at: &str, path: &str) -> (Value, String) {
        let mut without = Self { fields: self.fields.clone(), wire: vec![] };
        without.fields.retain(|field| field.name != "since");
        (self.and(failed(at, "GREATER_OR_EQUALS")), without.path(path, &[("since", at.to_owned())]))
    }

    /// The filters for the API, for what failed after a time.
    pub(super) fn failed_after(&self, at: &str) -> Value {
        self.and(failed(at, "GREATER"))
    }

    /// Whether any filter is chosen.
    pub(super) fn is_any(&self) -> bool {
        !self.wire.is_empty()
    }

    /// The fields of the chosen filters.
    pub(super) fn set(&self) -> Vec<Field> {
        self.fields.iter().filter(|field| !field.value.is_empty()).cloned().collect()
    }

    /// A path with the chosen filters and more parameters.
    pub(super) fn path(&self, path: &str, more: &[(&str, String)]) -> String {
        let chosen = self.fields.iter().filter(|field| !field.value.is_empty());
        let pairs: Vec<(&str, &str)> = chosen
            .map(|field| (field.name, field.value.as_str()))
            .chain(more.iter().map(|(name, value)| (*name, value.as_str())))
            .collect();
        match serde_urlencoded::to_string(pairs) {
            Ok(query) if !query.is_empty() => format!("{path}?{query}"),
            _ => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_goes_to_the_api_and_into_paths() {
        let chosen = Chosen::of(FAILED, &Form::of_query(Some("view=targets&aggregate=a%26b&other=1&instance=+")));
        assert_eq!(chosen.wire(), json!([{ "viewName": "targets" }, { "aggregateId": "a&b" }]));
        assert_eq!(chosen.path("/x", &[("from", "25".to_owned())]), "/x?view=targets&aggregate=a%26b&from=25");
        let nothing = Chosen::of(FAILED, &Form::default());
        assert!(!nothing.is_any());
        assert_eq!(nothing.path("/x", &[]), "/x");
    }
}
