//! The page that shows the document. It is complete without scripts; assets/docs.js only sends requests.

mod form;
mod schema;
mod text;

use std::fmt::Write;

use base::secret;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use self::text::{anchor, escape, inline, prose};

const STYLE: &str = include_str!("../../assets/docs.css");
const SCRIPT: &str = include_str!("../../assets/docs.js");

/// The verbs in the order of the page.
const VERBS: [&str; 5] = ["post", "get", "patch", "put", "delete"];

/// The content security policy: the page's own style and script, and answers from its own host.
pub(super) fn policy() -> String {
    let hash = |content: &str| format!("'sha256-{}'", STANDARD.encode(secret::sha256(content.as_bytes())));
    format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// Renders the page.
pub(super) fn page(document: &Value) -> String {
    let info = &document["info"];
    let title = escape(text(&info["title"]));
    let (mut nav, mut main) = (String::new(), String::new());
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = text(&tag["name"]);
        let operations = operations(document, name);
        let _ = write!(nav, "<li><a href=\"#{name}\">{name}</a><ul>{}</ul></li>", links(&operations));
        let _ = write!(main, "<section id=\"{name}\"><h2>{name}</h2>{}", prose(text(&tag["description"])));
        main.extend(operations.iter().map(|operation| operation.article(document)));
        main.push_str("</section>");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}: API</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">To the content</a>\n\
         <header><h1>{title}</h1><p>Version {version}. The same for programs: <a href=\"/openapi.json\">openapi.json</a>.\
         </p></header>\n<nav aria-label=\"Operations\"><ul>{nav}<li><a href=\"#schemas\">Schemas</a></li>\
         <li><a href=\"#errors\">Errors</a></li></ul></nav>\n<main id=\"content\">\n{about}{token}\n{main}\n{schemas}\n\
         {errors}\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        version = escape(text(&info["version"])),
        about = prose(text(&info["description"])),
        token = form::TOKEN,
        schemas = schema::section(document),
        errors = errors(document),
    )
}

/// The text of a value; empty if it is none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Resolves a reference of the document; other values stay as they are.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// An operation with its path and verb.
struct Operation<'a> {
    path: &'a str,
    verb: &'a str,
    item: &'a Value,
}

/// The operations with a tag.
fn operations<'a>(document: &'a Value, tag: &str) -> Vec<Operation<'a>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, verbs)| {
        VERBS.iter().filter_map(move |verb| verbs.get(verb).map(|item| Operation { path, verb, item }))
    });
    all.filter(|operation| operation.item["tags"][0] == tag).collect()
}

fn links(operations: &[Operation<'_>]) -> String {
    operations.iter().map(|operation| format!("<li><a href=\"#{0}\">{0}</a></li>", operation.id())).collect()
}

impl Operation<'_> {
    fn id(&self) -> &str {
        text(&self.item["operationId"])
    }

    fn article(&self, document: &Value) -> String {
        let id = self.id();
        let grpc = self.item["x-grpc"].as_str().map(|path| format!("<p>gRPC: <code>{}</code></p>", escape(path)));
        format!(
            "<article id=\"{id}\" aria-labelledby=\"{id}-name\"><h3 id=\"{id}-name\">{id}</h3>\
             <p class=\"path\"><b class=\"{verb}\">{upper}</b> <code>{path}</code></p>{about}{grpc}{parameters}{body}{answers}\
             {form}</article>",
            verb = self.verb,
            upper = self.verb.to_uppercase(),
            path = escape(self.path),
            about = prose(text(&self.item["description"])),
            grpc = grpc.unwrap_or_default(),
            parameters = self.parameters(document),
            body = self.body(document),
            answers = self.answers(document),
            form = form::form(document, self),
        )
    }

    fn parameters(&self, document: &Value) -> String {
        let row = |parameter: &Value| {
            let required = if parameter["required"] == true { " <em>required</em>" } else { "" };
            format!(
                "<tr><th scope=\"row\"><code>{}</code>{required}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(text(&parameter["name"])),
                text(&parameter["in"]),
                schema::kind(&parameter["schema"]),
                inline(text(&parameter["description"])),
            )
        };
        let rows: String = self.parameter_list(document).map(row).collect();
        table("Parameters", &["name", "in", "type", "meaning"], &rows)
    }

    fn parameter_list<'a>(&'a self, document: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.item["parameters"].as_array().into_iter().flatten().map(|parameter| resolved(document, parameter))
    }

    fn body(&self, document: &Value) -> String {
        let Some(body) = self.item.get("requestBody") else { return String::new() };
        let contents = body["content"].as_object().into_iter().flatten();
        let contents = contents.map(|(media, content)| {
            let examples = examples(document, content);
            format!("<p><code>{media}</code>: {}</p>{examples}", schema::kind(&content["schema"]))
        });
        format!("<h4>Body</h4>{}{}", prose(text(&body["description"])), contents.collect::<String>())
    }

    fn answers(&self, document: &Value) -> String {
        let row = |(status, answer): (&String, &Value)| {
            let answer = resolved(document, answer);
            let content = &answer["content"]["application/json"];
            let headers = answer["headers"].as_object().into_iter().flatten();
            let headers: Vec<String> = headers.map(|(name, _)| format!("<code>{name}</code>")).collect();
            // All errors have the same form; the section on errors shows one.
            let shown = if status.starts_with('2') { examples(document, content) } else { String::new() };
            format!(
                "<tr><th scope=\"row\">{status}</th><td>{}</td><td>{}{shown}</td><td>{}</td></tr>",
                explained(document, &inline(text(&answer["description"]))),
                schema::kind(&content["schema"]),
                headers.join(" "),
            )
        };
        let rows: String = self.item["responses"].as_object().into_iter().flatten().map(row).collect();
        table("Answers", &["status", "meaning", "body", "headers"], &rows)
    }
}

/// Links the reasons in a text to their explanations.
fn explained(document: &Value, meaning: &str) -> String {
    let reasons = document["x-reasons"].as_array().into_iter().flatten().map(|reason| text(&reason["reason"]));
    reasons.fold(meaning.to_owned(), |meaning, name| {
        let code = format!("<code>{name}</code>");
        let link = format!("<a href=\"#{}\">{code}</a>", anchor(&format!("error-{name}")));
        meaning.replace(&code, &link)
    })
}

/// The examples of a body.
fn examples(document: &Value, content: &Value) -> String {
    let several = content["examples"].as_object().into_iter().flatten().map(|(name, example)| {
        let example = resolved(document, example);
        (example["summary"].as_str().unwrap_or(name), &example["value"])
    });
    let all = content.get("example").map(|example| ("Example", example)).into_iter().chain(several);
    all.map(|(name, example)| {
        let shown = serde_json::to_string_pretty(example).unwrap_or_default();
        format!("<details><summary>{}</summary><pre>{}</pre></details>", escape(name), escape(&shown))
    })
    .collect()
}

/// The section on errors: causes and remedies.
fn errors(document: &Value) -> String {
    let row = |reason: &Value| {
        let name = text(&reason["reason"]);
        let link = anchor(&format!("error-{name}"));
        format!(
            "<tr id=\"{link}\"><th scope=\"row\"><code>{name}</code></th><td>{}</td><td>{}</td><td>{}</td></tr>",
            reason["status"],
            inline(text(&reason["cause"])),
            inline(text(&reason["remedy"])),
        )
    };
    let rows: String = document["x-reasons"].as_array().into_iter().flatten().map(row).collect();
    let example = document["components"]["examples"].as_object().and_then(|examples| examples.values().next());
    let example = example.and_then(|example| serde_json::to_string_pretty(&example["value"]).ok()).unwrap_or_default();
    format!(
        "<section id=\"errors\"><h2>Errors</h2><p>Every error of the API has the form {} and a stable reason in its \
         first detail. The OAuth endpoints answer {} instead.</p><pre>{}</pre>{}</section>",
        schema::link("Error"),
        schema::link("OAuthError"),
        escape(&example),
        table("Reasons", &["reason", "status", "cause", "remedy"], &rows),
    )
}

/// A table with a heading; empty if it has no rows.
fn table(caption: &str, heads: &[&str], rows: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    format!(
        "<div class=\"table\"><table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>\
         </table></div>"
    )
}
