//! Descriptions of schemas, and a table of each.

use serde_json::Value;

use super::{
    table, text,
    text::{anchor, escape, inline, prose},
};

/// The section with all named schemas.
pub(super) fn section(document: &Value) -> String {
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    let schemas: String = schemas.map(|(name, schema)| one(name, schema)).collect();
    format!("<section id=\"schemas\"><h2>Schemas</h2>{schemas}</section>")
}

fn one(name: &str, schema: &Value) -> String {
    let id = anchor(&format!("schema-{name}"));
    let required = schema["required"].as_array();
    let row = |(member, property): (&String, &Value)| {
        let is_required = required.is_some_and(|required| required.iter().any(|other| other == member));
        let mark = if is_required { " <em>required</em>" } else { "" };
        let meaning = inline(text(&property["description"]));
        format!(
            "<tr><th scope=\"row\"><code>{}</code>{mark}</th><td>{}</td><td>{meaning}</td></tr>",
            escape(member),
            kind(property)
        )
    };
    let rows: String = schema["properties"].as_object().into_iter().flatten().map(row).collect();
    let shape = if rows.is_empty() { format!("<p>{}</p>", kind(schema)) } else { String::new() };
    format!(
        "<article id=\"{id}\" aria-labelledby=\"{id}-name\"><h3 id=\"{id}-name\">{}</h3>{}{shape}{}</article>",
        escape(name),
        prose(text(&schema["description"])),
        table("Members", &["name", "type", "meaning"], &rows),
    )
}

/// A link to a schema.
pub(super) fn link(name: &str) -> String {
    format!("<a href=\"#{}\">{}</a>", anchor(&format!("schema-{name}")), escape(name))
}

/// Describes the type and the rules of a schema in a few words.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = link(reference.rsplit('/').next().unwrap_or_default());
        return match schema["not"]["const"].as_str() {
            Some(excluded) => format!("{name}, not <code>{}</code>", escape(excluded)),
            None => name,
        };
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(kinds) = schema[choice].as_array().filter(|_| schema.get("properties").is_none()) {
            return kinds.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::Array(names) => names.iter().map(text).collect(),
        name => vec![text(name)],
    };
    let words = names.iter().map(|name| match *name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "" => "anything".to_owned(),
        name => name.to_owned(),
    });
    let words = words.collect::<Vec<_>>().join(" or ");
    let rules = rules(schema);
    if rules.is_empty() { words } else { format!("{words}; {}", rules.join(", ")) }
}

fn rules(schema: &Value) -> Vec<String> {
    let code = |value: &Value| {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("<code>{}</code>", escape(&shown))
    };
    let mut rules = vec![];
    for (keyword, before, after) in [
        ("format", "", ""),
        ("const", "always ", ""),
        ("minLength", "at least ", " characters"),
        ("maxLength", "at most ", " characters"),
        ("minItems", "at least ", " items"),
        ("maxItems", "at most ", " items"),
        ("maxProperties", "at most ", " members"),
        ("minimum", "at least ", ""),
        ("maximum", "at most ", ""),
        ("default", "by default ", ""),
        ("pattern", "matches ", ""),
    ] {
        if let Some(value) = schema.get(keyword) {
            rules.push(format!("{before}{}{after}", code(value)));
        }
    }
    if let Some(pattern) = schema["not"].get("pattern") {
        rules.push(format!("does not match {}", code(pattern)));
    }
    if let Some(values) = schema["enum"].as_array() {
        rules.push(format!("one of {}", values.iter().map(code).collect::<Vec<_>>().join(" ")));
    }
    rules
}
