//! The comments of the proto files, which describe what they precede.

use std::{collections::HashMap, fmt::Write};

use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, MessageDescriptor};

/// The comments, by file and by path in it.
pub(super) struct Comments(HashMap<String, HashMap<Vec<i32>, String>>);

impl Comments {
    pub(super) fn of(pool: &DescriptorPool) -> Self {
        let files = pool.file_descriptor_protos().map(|file| {
            let locations = file.source_code_info.iter().flat_map(|info| &info.location);
            let comments = locations.filter_map(|location| {
                let text = location.leading_comments.as_deref().map(plain)?;
                Some((location.path.clone(), text))
            });
            (file.name().to_owned(), comments.collect())
        });
        Self(files.collect())
    }

    /// The comment at a path; empty if there is none.
    pub(super) fn at(&self, file: &FileDescriptor, path: &[i32]) -> &str {
        self.0.get(file.name()).and_then(|file| file.get(path)).map_or("", String::as_str)
    }

    pub(super) fn of_message(&self, message: &MessageDescriptor) -> &str {
        self.at(&message.parent_file(), message.path())
    }

    pub(super) fn of_field(&self, field: &FieldDescriptor) -> &str {
        self.at(&field.parent_file(), field.path())
    }

    /// The comment of an enum, and those of its values.
    pub(super) fn of_enum(&self, kind: &EnumDescriptor) -> String {
        let mut text = self.at(&kind.parent_file(), kind.path()).to_owned();
        for value in kind.values() {
            let comment = self.at(&kind.parent_file(), value.path());
            if !comment.is_empty() {
                let _ = write!(text, "\n\n`{}`: {comment}", value.name());
            }
        }
        text.trim_start().to_owned()
    }
}

/// Joins the lines of each paragraph.
fn plain(comment: &str) -> String {
    let lines: Vec<&str> = comment.lines().map(str::trim).collect();
    let paragraphs = lines.split(|line| line.is_empty()).filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(|paragraph| paragraph.join(" ")).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_the_comment_that_stands_above_it() {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
        let comments = Comments::of(&pool);
        let target = pool.get_message_by_name("platform.resources.action.v3alpha.Target").unwrap();
        assert_eq!(comments.of_message(&target), "An endpoint that executions call.");
        let name = target.get_field_by_name("name").unwrap();
        assert_eq!(comments.of_field(&name), "The name; it need not be unique.");
        let linking = pool.get_enum_by_name("platform.resources.idp.v3alpha.AutoLinkingOption").unwrap();
        let expected = "\n\n`AUTO_LINKING_OPTION_USERNAME`: The external user name is that of a user.";
        assert!(comments.of_enum(&linking).contains(expected));
    }

    #[test]
    fn lines_become_paragraphs() {
        assert_eq!(plain(" one\n two\n\n three\n"), "one two\n\nthree");
    }
}
