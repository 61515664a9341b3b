//! A password that somebody chooses: what it must have, and what of that it lacks.

use domain::{
    context::Owner,
    setting::password::{LONGEST, Password, Rule, rules},
};
use view::settings::instance_of;

use super::visit::Visitor;
use crate::words::Words;

/// What new passwords must have in a context.
pub(super) struct NewPassword(Vec<Rule>);

impl NewPassword {
    /// In the context of whoever chooses one.
    pub(super) fn of(visitor: &Visitor, owner: &Owner) -> Self {
        let instance_id = instance_of(&visitor.tenant.id, owner);
        Self(rules(&visitor.oidc.edge.settings.effective::<Password>(instance_id, owner).chain))
    }

    /// What is wrong with one.
    pub(super) fn faults(&self, words: &Words, typed: &str) -> Vec<String> {
        if typed.is_empty() {
            return vec![words.get("change.empty").to_owned()];
        }
        let lacking = self.0.iter().filter(|rule| !rule.is_kept(typed)).map(|rule| said(words, *rule));
        let is_long = typed.chars().count() > LONGEST;
        let long = is_long.then(|| words.with("change.long", &[("count", &LONGEST.to_string())]));
        lacking.chain(long).collect()
    }

    /// What it must have, save for what is told as a fault already.
    pub(super) fn hints(&self, words: &Words, told: &[String]) -> Vec<String> {
        self.0.iter().map(|rule| said(words, *rule)).filter(|rule| !told.contains(rule)).collect()
    }

    /// The rules as managers of passwords read them.
    pub(super) fn for_managers(&self) -> String {
        let said = |rule: &Rule| match rule {
            Rule::Length(least) => format!("minlength: {least};"),
            Rule::Uppercase => "required: upper;".to_owned(),
            Rule::Lowercase => "required: lower;".to_owned(),
            Rule::Number => "required: digit;".to_owned(),
            Rule::Symbol => "required: special;".to_owned(),
        };
        self.0.iter().map(said).collect::<Vec<_>>().join(" ")
    }
}

fn said(words: &Words, rule: Rule) -> String {
    let key = match rule {
        Rule::Length(least) => return words.count("change.length", least),
        Rule::Uppercase => "change.uppercase",
        Rule::Lowercase => "change.lowercase",
        Rule::Number => "change.number",
        Rule::Symbol => "change.symbol",
    };
    words.get(key).to_owned()
}
