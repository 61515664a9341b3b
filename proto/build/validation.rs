//! Generates `impl Validate` for every message that a request can contain, and `impl Contextual` for the requests.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write,
};

use heck::{ToSnakeCase, ToUpperCamelCase};
use prost_reflect::{
    DescriptorPool, EnumDescriptor, EnumValueDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor,
};

use crate::option::{self, Rules};

/// Returns the code, by package.
pub(crate) fn generate(pool: &DescriptorPool) -> BTreeMap<String, String> {
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut waiting: Vec<MessageDescriptor> = pool
        .services()
        .flat_map(|service| service.methods().map(|method| method.input()).collect::<Vec<_>>())
        .collect();
    for request in &waiting {
        packages.entry(request.package_name().to_owned()).or_default().push_str(&contextual(request));
    }
    while let Some(message) = waiting.pop() {
        if is_well_known(&message) || !seen.insert(message.full_name().to_owned()) {
            continue;
        }
        packages.entry(message.package_name().to_owned()).or_default().push_str(&implementation(&message));
        waiting.extend(message.fields().filter_map(|field| message_of(&field)));
    }
    packages
}

/// Returns the message type of a field; for a map, that of its values.
fn message_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let message = field.kind().as_message()?.clone();
    if message.is_map_entry() { message_of(&message.map_entry_value_field()) } else { Some(message) }
}

/// Returns the path of the Rust type of a message with this full name.
pub(crate) fn rust_path(full_name: &str) -> String {
    let parts: Vec<String> = full_name.split('.').map(str::to_owned).collect();
    let (name, modules) = parts.split_last().expect("a full name has a last part");
    let modules: Vec<String> = modules.iter().map(|module| module.to_snake_case()).collect();
    format!("crate::generated::{}::{}", modules.join("::"), name.to_upper_camel_case())
}

/// Implements `Contextual` for a request, whose field `ctx`, if it has one, names the context.
fn contextual(request: &MessageDescriptor) -> String {
    let body = request
        .get_field_by_name("ctx")
        .map_or("", |_| "fn context(&self) -> Option<&crate::object::RequestContext> { self.ctx.as_ref() }");
    format!("impl crate::Contextual for {} {{ {body} }}\n", rust_path(request.full_name()))
}

fn implementation(message: &MessageDescriptor) -> String {
    let mut body = String::new();
    for field in message.fields().filter(|field| real_oneof(field).is_none()) {
        body.push_str(&plain(&field));
    }
    for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
        body.push_str(&choice(message, &oneof));
    }
    let (path, violations) = if body.is_empty() { ("_", "_") } else { ("path", "violations") };
    let check = if body.is_empty() { "" } else { "let mut check = crate::validate::Check::new(path, violations);\n" };
    format!(
        "impl crate::Validate for {} {{\n\
         fn validate(&self, {path}: &str, {violations}: &mut Vec<crate::Violation>) {{\n{check}{body}}}\n}}\n",
        rust_path(message.full_name())
    )
}

/// Returns the checks of a field that is not in a oneof.
fn plain(field: &FieldDescriptor) -> String {
    let (name, member, rules) = (field.name(), member(field.name()), option::rules(field));
    if field.is_map() {
        return entries(field, &rules);
    }
    let check = value(field, &rules, if field.is_list() { "&field" } else { "field" });
    if field.is_list() {
        let mut code = String::new();
        if rules.max_items > 0 {
            let _ = writeln!(code, "check.items({name:?}, self.{member}.len(), {});", rules.max_items);
        }
        if !check.is_empty() {
            let most = if rules.max_items > 0 { format!(".take({})", rules.max_items) } else { String::new() };
            let _ = writeln!(
                code,
                "for (index, value) in self.{member}.iter().enumerate(){most} {{\n\
                 if check.is_full() {{ break; }}\n\
                 let field = format!(\"{name}[{{index}}]\");\n{check}}}"
            );
        }
        return code;
    }
    if !field.supports_presence() {
        return if check.is_empty() {
            String::new()
        } else {
            format!("{{\nlet (field, value) = ({name:?}, &self.{member});\n{check}}}\n")
        };
    }
    let missing = if rules.required { format!("check.missing({name:?})") } else { String::new() };
    match (check.is_empty(), missing.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("if self.{member}.is_none() {{ {missing} }}\n"),
        (false, _) => format!(
            "match &self.{member} {{\nSome(value) => {{\nlet field = {name:?};\n{check}}}\nNone => {{ {missing} }}\n}}\n"
        ),
    }
}

/// Returns the checks of a map, whose keys are names.
fn entries(field: &FieldDescriptor, rules: &Rules) -> String {
    let (name, member, most) = (field.name(), member(field.name()), rules.max_items);
    assert!(most > 0, "{}: a map has a bound", field.full_name());
    let entry = field.kind().as_message().expect("a map is of entries").map_entry_value_field();
    let check = value(&entry, &option::rules(&entry), "&field");
    if check.is_empty() {
        return format!(
            "check.items({name:?}, self.{member}.len(), {most});\n\
             for key in self.{member}.keys().take({most}) {{\n\
             if check.is_full() {{ break; }}\n\
             check.key({name:?}, key);\n}}\n"
        );
    }
    format!(
        "check.items({name:?}, self.{member}.len(), {most});\n\
         for (key, value) in self.{member}.iter().take({most}) {{\n\
         if check.is_full() {{ break; }}\n\
         if !check.key({name:?}, key) {{ continue; }}\n\
         let field = format!(\"{name}[{{key}}]\");\n{check}}}\n"
    )
}

/// Returns the checks of the fields of a oneof, and of their presence.
fn choice(message: &MessageDescriptor, oneof: &OneofDescriptor) -> String {
    let kind = format!("{}::{}", message.name().to_snake_case(), oneof.name().to_upper_camel_case());
    let mut arms = String::new();
    let mut open = !option::is_required(oneof);
    for field in oneof.fields() {
        let check = value(&field, &option::rules(&field), "field");
        open |= check.is_empty();
        if !check.is_empty() {
            let _ = writeln!(
                arms,
                "Some({kind}::{}(value)) => {{\nlet field = {:?};\n{check}}}",
                field.name().to_upper_camel_case(),
                field.name()
            );
        }
    }
    if option::is_required(oneof) {
        let names: Vec<String> = oneof.fields().map(|field| field.name().to_owned()).collect();
        let _ = writeln!(arms, "None => check.none_of({:?}, {:?}),", oneof.name(), names.join(", "));
    }
    if arms.is_empty() {
        return String::new();
    }
    let rest = if open { "_ => {}\n" } else { "" };
    format!("match &self.{} {{\n{arms}{rest}}}\n", member(oneof.name()))
}

/// Returns the check of one `value` of the field's type; empty where every value is valid.
fn value(field: &FieldDescriptor, rules: &Rules, name: &str) -> String {
    match field.kind() {
        Kind::String => match text(rules, name) {
            check if rules.empty_allowed && !check.is_empty() => format!("if !value.is_empty() {{ {check} }}\n"),
            check => check,
        },
        Kind::Bool if rules.const_true => format!("check.must_be_true({name}, *value);\n"),
        Kind::Enum(kind) => enumeration(&kind, rules, name),
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Duration" => format!(
                "check.duration({name}, *value, &crate::validate::Span {{ gt_zero: {}, non_negative: {}, \
                 max_seconds: {} }});\n",
                rules.gt_zero,
                rules.non_negative,
                bound(rules.max_seconds)
            ),
            "google.protobuf.Struct" => String::new(),
            _ if rules.empty_allowed => {
                format!("if *value != Default::default() {{ check.message({name}, value); }}\n")
            }
            _ => format!("check.message({name}, value);\n"),
        },
        _ => String::new(),
    }
}

fn text(rules: &Rules, name: &str) -> String {
    let Rules { min_len, max_len, uri, http_url, pattern, pattern_rule, no_control, .. } = rules;
    if *min_len == 0 && *max_len == 0 && !uri && !http_url && pattern.is_empty() && !no_control {
        return String::new();
    }
    let pattern = if pattern.is_empty() {
        "None".to_owned()
    } else {
        regex_lite::Regex::new(pattern).expect("every pattern in the proto files is a regular expression");
        assert!(!pattern_rule.is_empty(), "a pattern_rule must say what the pattern {pattern} asks for");
        format!(
            "Some({{ static PATTERN: crate::validate::Pattern = crate::validate::Pattern::new(|| \
             crate::validate::pattern({pattern:?})); (&PATTERN, {pattern_rule:?}) }})"
        )
    };
    format!(
        "check.text({name}, value, &crate::validate::Text {{ min_len: {min_len}, max_len: {}, uri: {uri}, \
         http_url: {http_url}, pattern: {pattern}, no_control: {no_control} }});\n",
        bound(*max_len)
    )
}

fn enumeration(kind: &EnumDescriptor, rules: &Rules, name: &str) -> String {
    let known = format!("{}::try_from(*value)", rust_path(kind.full_name()));
    let unspecified = kind.default_value().name().ends_with("_UNSPECIFIED");
    let unset = if rules.defined && unspecified { "*value == 0" } else { "false" };
    let is_allowed = |value: &EnumValueDescriptor| !(rules.defined && unspecified && value.number() == 0);
    let values: Vec<String> = kind.values().filter(is_allowed).map(|value| value.name().to_owned()).collect();
    format!("check.defined({name}, {known}.is_ok(), {unset}, {:?});\n", values.join(", "))
}

/// Returns the name of a field in the Rust type.
fn member(name: &str) -> String {
    let name = name.to_snake_case();
    if name == "type" { "r#type".to_owned() } else { name }
}

fn bound(limit: u32) -> String {
    if limit == 0 { "None".to_owned() } else { format!("Some({limit})") }
}

fn real_oneof(field: &FieldDescriptor) -> Option<OneofDescriptor> {
    field.containing_oneof().filter(|oneof| !oneof.is_synthetic())
}

fn is_well_known(message: &MessageDescriptor) -> bool {
    message.package_name() == "google.protobuf"
}
