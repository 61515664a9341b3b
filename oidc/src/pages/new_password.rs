//! The rules for a new password, and which of them it breaks.

use domain::{
    context::Owner,
    setting::password::{LONGEST, Password, Rule, rules},
};
use view::settings::instance_of;

use super::visit::Visitor;
use crate::words::Words;

/// The rules for new passwords in a context.
pub(super) struct NewPassword(Vec<Rule>);

impl NewPassword {
    /// Returns the rules in the context of a user.
    pub(super) fn of(visitor: &Visitor, owner: &Owner) -> Self {
        let instance_id = instance_of(&visitor.tenant.id, owner);
        Self(rules(&visitor.oidc.edge.settings.effective::<Password>(instance_id, owner).chain))
    }

    /// Returns the texts of the rules that a password breaks.
    pub(super) fn faults(&self, words: &Words, typed: &str) -> Vec<String> {
        if typed.is_empty() {
            return vec![words.get("change.empty").to_owned()];
        }
        let lacking = self.0.iter().filter(|rule| !rule.is_met_by(typed)).map(|rule| rule_text(words, *rule));
        let is_long = typed.chars().count() > LONGEST;
        let long = is_long.then(|| words.with("change.long", &[("count", &LONGEST.to_string())]));
        lacking.chain(long).collect()
    }

    /// Returns the texts of the rules, except for those that are shown as faults already.
    pub(super) fn hints(&self, words: &Words, shown: &[String]) -> Vec<String> {
        self.0.iter().map(|rule| rule_text(words, *rule)).filter(|rule| !shown.contains(rule)).collect()
    }

    /// Returns the rules in the format of password managers (`passwordrules`).
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

fn rule_text(words: &Words, rule: Rule) -> String {
    let key = match rule {
        Rule::Length(least) => return words.count("change.length", least),
        Rule::Uppercase => "change.uppercase",
        Rule::Lowercase => "change.lowercase",
        Rule::Number => "change.number",
        Rule::Symbol => "change.symbol",
    };
    words.get(key).to_owned()
}
