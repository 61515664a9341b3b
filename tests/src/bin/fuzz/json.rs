//! Mutates JSON structurally, by members and values, and prints it in the ways that a client may.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// Changes one value or member of a tree.
pub(crate) fn mutate(value: &mut Value, other: &Value, words: &[String], random: &mut Random) {
    let place = random.below(count(value));
    let taken = pick(other, random.below(count(other))).clone();
    let Some(node) = nth(value, &mut { place }) else { return };
    match (random.below(6), &mut *node) {
        (0, Value::Object(members)) => {
            let name = nth_name(members, random);
            members.remove(&name);
        }
        (1, Value::Object(members)) => {
            let value = members.remove(&nth_name(members, random)).unwrap_or(taken);
            members.insert(words[random.below(words.len())].clone(), value);
        }
        (2, Value::Object(members)) => drop(members.insert(words[random.below(words.len())].clone(), taken)),
        (0, Value::Array(items)) => drop(items.pop()),
        (1, Value::Array(items)) => items.push(taken),
        (2, Value::Array(items)) if !items.is_empty() => {
            let times = 1 + random.below(200 / items.len() + 1);
            *items = items.iter().cycle().take(times * items.len()).cloned().collect();
        }
        (3, _) => *node = taken,
        (4, _) => *node = nested(node.take(), random),
        _ => *node = edge(words, random),
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Returns the node with a number, in the order in which nodes are printed.
fn nth<'a>(value: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, number)),
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, number)),
        _ => None,
    }
}

fn pick(value: &Value, number: usize) -> &Value {
    let mut nodes = vec![value];
    for at in 0..=number {
        match nodes.get(at) {
            Some(Value::Array(items)) => nodes.extend(items),
            Some(Value::Object(members)) => nodes.extend(members.values()),
            _ => {}
        }
    }
    nodes.get(number).unwrap_or(&nodes[0])
}

fn nth_name(members: &Map<String, Value>, random: &mut Random) -> String {
    members.keys().nth(random.below(members.len())).cloned().unwrap_or_default()
}

fn nested(value: Value, random: &mut Random) -> Value {
    let most = if random.once_in(10) { 200 } else { 2 };
    let (times, in_array) = (1 + random.below(most), random.once_in(2));
    (0..times).fold(value, |value, _| if in_array { json!([value]) } else { json!({ "a": value }) })
}

/// Returns an edge value, such as a limit.
fn edge(words: &[String], random: &mut Random) -> Value {
    match random.below(14) {
        0 => Value::Null,
        1 => json!(random.once_in(2)),
        2 => json!(""),
        3 => json!("\u{0}"),
        4 => json!("\u{1f980}".repeat(random.below(1200))),
        5 => json!(random.pick(&["-0.000000001s", "315576000001s", "0.0000000001s", "1e3s", "+1s", "270.0s", "s"])),
        6 => json!(random.pick(&["0000-12-31T00:00:00Z", "9999-12-31T23:59:60Z", "2024-02-30T00:00:00+25:00"])),
        7 => json!(random.number()),
        8 => json!(-1),
        9 => json!(random.pick(&[&f64::MAX, &-0.0, &1e18, &0.5])),
        10 => json!(random.number().to_string()),
        11 => json!(random.below(12)),
        12 => json!({}),
        _ => json!(words[random.below(words.len())]),
    }
}

/// Prints a tree, with an occasional duplicate member, number as text, needless escape, or space.
pub(crate) fn print(value: &Value, random: &mut Random, into: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            into.push(b'[');
            for (at, item) in items.iter().enumerate() {
                into.extend_from_slice(if at == 0 { b"" } else { b"," });
                print(item, random, into);
            }
            into.push(b']');
        }
        Value::Object(members) => {
            into.push(b'{');
            for (at, (name, member)) in members.iter().enumerate() {
                into.extend_from_slice(if at == 0 { b"" } else { b"," });
                text(name, random, into);
                into.push(b':');
                print(member, random, into);
                if random.once_in(100) {
                    into.push(b',');
                    text(name, random, into);
                    into.extend_from_slice(b":null");
                }
            }
            into.push(b'}');
        }
        Value::String(string) => text(string, random, into),
        Value::Number(number) if random.once_in(30) => into.extend_from_slice(format!("\"{number}\"").as_bytes()),
        other => into.extend_from_slice(other.to_string().as_bytes()),
    }
    if random.once_in(50) {
        into.push(b" \t\r\n"[random.below(4)]);
    }
}

fn text(string: &str, random: &mut Random, into: &mut Vec<u8>) {
    if random.once_in(40) {
        into.push(b'"');
        string.encode_utf16().for_each(|unit| into.extend_from_slice(format!("\\u{unit:04x}").as_bytes()));
        into.push(b'"');
    } else {
        into.extend_from_slice(Value::from(string).to_string().as_bytes());
    }
}
