//! Forms to try operations. They are hidden until the script shows them, because only the script can send them.

use serde_json::Value;

use super::{
    Operation, resolved, text,
    text::{anchor, escape},
};

/// The section for the token that all requests send.
pub(super) const TOKEN: &str = "<section id=\"try\" hidden aria-labelledby=\"try-name\"><h2 id=\"try-name\">Try it</h2>\
    <p>Requests go to this host. <b>Authorize</b> has you log in, and puts a token here that may do what you may. So does the operation \
    <a href=\"#token\">token</a> with the one that it gets. The token stays in this page: it is forgotten when the page is closed.</p>\
    <p><button type=\"button\" id=\"log-in\">Authorize</button></p><div role=\"status\" id=\"logged-in\"></div>\
    <p><label for=\"bearer\">Access token</label> \
    <input id=\"bearer\" type=\"password\" autocomplete=\"off\" spellcheck=\"false\"></p></section>";

/// The form of an operation.
pub(super) fn form(document: &Value, operation: &Operation<'_>) -> String {
    let id = operation.id();
    let parameters: String =
        operation.parameter_list(document).map(|parameter| self::parameter(id, parameter)).collect();
    let contents = operation.item["requestBody"]["content"].as_object().into_iter().flatten();
    let bodies: String = contents.map(|(media, content)| body(document, id, media, content)).collect();
    format!(
        "<form class=\"try\" hidden data-verb=\"{}\" data-path=\"{}\"><details><summary>Try {id}</summary>\
         {parameters}{bodies}<p><button>Send</button></p><div role=\"status\"></div><pre class=\"answer\" hidden \
         tabindex=\"0\"></pre></details></form>",
        operation.verb.to_uppercase(),
        escape(operation.path),
    )
}

fn parameter(operation: &str, parameter: &Value) -> String {
    let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
    let value = if place == "path" { escape(&value_text(&parameter["example"])) } else { String::new() };
    let required = if parameter["required"] == true { " required" } else { "" };
    let (id, name) = (anchor(&format!("{operation}-{name}")), escape(name));
    format!(
        "<p><label for=\"{id}\">{name}</label> <input id=\"{id}\" data-in=\"{place}\" name=\"{name}\" value=\"{value}\" \
         placeholder=\"{}\" autocomplete=\"off\" spellcheck=\"false\"{required}></p>",
        escape(&value_text(&parameter["example"])),
    )
}

/// The fields for the body: one for JSON, or one for each member of a form.
fn body(document: &Value, operation: &str, media: &str, content: &Value) -> String {
    let example = content.get("example").or_else(|| {
        let first = content["examples"].as_object().and_then(|examples| examples.values().next());
        first.map(|first| &resolved(document, first)["value"])
    });
    if media == "application/json" {
        let shown = example.and_then(|example| serde_json::to_string_pretty(example).ok()).unwrap_or_default();
        let (id, rows) = (anchor(&format!("{operation}-body")), shown.lines().count().clamp(3, 20));
        return format!(
            "<p><label for=\"{id}\">Body</label> <textarea id=\"{id}\" data-in=\"body\" rows=\"{rows}\" \
             spellcheck=\"false\">{}</textarea></p>",
            escape(&shown)
        );
    }
    let schema = resolved(document, &content["schema"]);
    let field = |(name, property): (&String, &Value)| {
        let id = anchor(&format!("{operation}-{name}"));
        let is_secret = property["format"] == "password";
        // The credentials are for the reader to fill in.
        let value = if schema["required"].as_array().is_some_and(|required| required.iter().any(|other| other == name))
        {
            example.map(|example| value_text(&example[name])).unwrap_or_default()
        } else {
            String::new()
        };
        format!(
            "<p><label for=\"{id}\">{name}</label> <input id=\"{id}\" data-in=\"form\" name=\"{name}\" type=\"{}\" \
             value=\"{}\" autocomplete=\"off\" spellcheck=\"false\"></p>",
            if is_secret { "password" } else { "text" },
            escape(&value),
        )
    };
    schema["properties"].as_object().into_iter().flatten().map(field).collect()
}

fn value_text(example: &Value) -> String {
    match example {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
