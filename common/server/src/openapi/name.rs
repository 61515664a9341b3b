//! The names of messages and enums in the document: those of the proto file, prefixed by the package if two packages
//! share one, and with the suffix `Input` in requests if answers have the message, too.

use std::collections::{HashMap, HashSet};

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use proto::operation::OPERATIONS;

/// The direction of a message. What may be sent is less strict in form and more in content than what is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Answer,
}

/// The names in the document. They follow from all operations, so that they stay when more are built.
pub(super) struct Names {
    /// Names of several packages, in lower case: generators make files and classes of them, some in another case.
    shared: HashSet<String>,
    in_answers: HashSet<String>,
}

impl Names {
    pub(super) fn of(pool: &DescriptorPool) -> Self {
        let reached = |messages: Vec<&str>| {
            let messages = messages.into_iter().filter_map(|name| pool.get_message_by_name(name));
            reachable(messages.collect())
        };
        let in_requests = reached(OPERATIONS.iter().map(|facts| facts.request).collect());
        let in_answers = reached(OPERATIONS.iter().map(|facts| facts.response).collect());
        let mut counts: HashMap<String, u32> = HashMap::new();
        for name in in_requests.union(&in_answers) {
            *counts.entry(short(name).to_ascii_lowercase()).or_default() += 1;
        }
        let shared = counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
        Self { shared, in_answers }
    }

    /// The name of a message or enum by its full name.
    pub(super) fn get(&self, full_name: &str, way: Direction) -> String {
        let name = self.plain(full_name);
        if way == Direction::Request && self.in_answers.contains(full_name) { format!("{name}Input") } else { name }
    }

    /// The name of a type that is the same in requests and answers.
    pub(super) fn plain(&self, full_name: &str) -> String {
        let name = short(full_name);
        if !self.shared.contains(&name.to_ascii_lowercase()) {
            return name.to_owned();
        }
        let package = full_name.split('.').skip(1).take_while(|part| !part.starts_with(['v', 'V']));
        match package.flat_map(|part| part.split('_')).map(capitalised).collect::<String>().as_str() {
            // Types that all resources share need no prefix.
            "Object" => name.to_owned(),
            package => format!("{package}{name}"),
        }
    }
}

fn short(full_name: &str) -> &str {
    full_name.rsplit('.').next().unwrap_or(full_name)
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_ascii_uppercase() + rest
}

/// The full names of all messages and enums that these messages contain, including themselves.
fn reachable(mut waiting: Vec<MessageDescriptor>) -> HashSet<String> {
    let mut reached = HashSet::new();
    while let Some(message) = waiting.pop() {
        let is_well_known = message.package_name() == "google.protobuf";
        // A map entry has no name in the document, but its value type has one.
        if is_well_known || !message.is_map_entry() && !reached.insert(message.full_name().to_owned()) {
            continue;
        }
        for field in message.fields() {
            match field.kind() {
                Kind::Message(nested) => waiting.push(nested),
                Kind::Enum(kind) => {
                    reached.insert(kind.full_name().to_owned());
                }
                _ => {}
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_proto_files_where_they_are_told_apart() {
        let names = Names::of(&DescriptorPool::decode(proto::DESCRIPTORS).unwrap());
        let action = |name: &str| format!("platform.resources.action.v3alpha.{name}");
        assert_eq!(names.get(&action("PatchTarget"), Direction::Request), "PatchTarget");
        assert_eq!(names.get(&action("Target"), Direction::Answer), "Target");
        assert_eq!(names.get(&action("Target"), Direction::Request), "TargetInput");
        assert_eq!(names.get("platform.object.v3alpha.Details", Direction::Answer), "Details");
        assert_eq!(names.get("platform.settings.object.v3alpha.Details", Direction::Answer), "SettingsObjectDetails");
    }

    #[test]
    fn no_two_messages_have_one_name_in_whichever_case() {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
        let names = Names::of(&pool);
        let mut seen = HashMap::new();
        let messages = OPERATIONS.iter().flat_map(|facts| [facts.request, facts.response]);
        for name in reachable(messages.filter_map(|name| pool.get_message_by_name(name)).collect()) {
            for way in [Direction::Request, Direction::Answer] {
                let other = seen.insert(names.get(&name, way).to_ascii_lowercase(), name.clone());
                assert!(other.is_none_or(|other| other == name), "{name}");
            }
        }
    }
}
