//! Looks up the user that a login names: by the id, the login name, or an address.

use domain::{
    context::Owner,
    reference::Reference,
    resource::user::{
        Human, User,
        contact::{Kind, PHONE},
    },
    standard::Standard,
};
use eventlog::record::AggregateKey;
use proto::session::check_user::Search;
use view::keyring::{claim_hash, hashed_claim};

use crate::{
    existence::{self, organization_of_live},
    turn::{ClaimKeys, Refusal, Turn, key_of},
};

/// Returns the user of an instance that is named, by the id or the login name.
pub(crate) fn named(turn: &mut Turn<'_>, keys: &ClaimKeys, instance_id: &str, search: &Search) -> Option<AggregateKey> {
    let key = match search {
        Search::UserId(id) => Some(AggregateKey::of::<Standard<User>>(instance_id, id.as_str())),
        Search::LoginName(name) => turn.holder(&claim_hash(&keys.instance, &User::username_claim(name))),
    };
    // Postgres has no U+0000 in texts.
    key.filter(|key| !key.id.contains('\0'))
}

/// Returns the hash under which tries with a name are counted. A phone number has one, however it is written, as it
/// does where people are found by it.
pub(crate) fn tries_hash(keys: &ClaimKeys, search: &Search) -> [u8; 32] {
    match search {
        Search::UserId(id) => keys.instance.mac(&[b"id", id.as_bytes()]),
        Search::LoginName(name) if PHONE.is_plausible(name) => claim_hash(&keys.instance, &PHONE.claim(name)),
        Search::LoginName(name) => claim_hash(&keys.instance, &User::username_claim(name)),
    }
}

/// The kinds of addresses by which people are found who give no login name, and the organization that they must be of.
#[derive(Debug, Clone)]
pub(crate) struct Contacts {
    pub(crate) kinds: Vec<Kind>,
    /// `None` for people of all organizations.
    pub(crate) organization_id: Option<String>,
}

/// A person who has the given address.
pub(crate) struct PersonWithContact {
    pub(crate) user: AggregateKey,
    pub(crate) human: Human,
    /// What kind of address it is.
    pub(crate) kind: Kind,
}

impl Contacts {
    /// Returns the people who have the given address; if there are several, only those who may log in.
    pub(crate) fn having(
        &self,
        turn: &mut Turn<'_>,
        keys: &ClaimKeys,
        instance_id: &str,
        said: &str,
    ) -> Result<Vec<PersonWithContact>, Refusal> {
        let kinds = self.kinds.iter().filter(|kind| kind.is_plausible(said));
        let named = kinds.map(|kind| {
            let hash = hashed_claim(&keys.instance, &kind.claim(said));
            let contact = Reference::new(kind.link, hash.expose().unwrap_or_default());
            (*kind, turn.referrers(&key_of(instance_id, &contact), kind.link), contact)
        });
        // All that must be loaded is loaded at once.
        let named: Vec<_> = named.collect();
        let Some((kind, referrers, contact)) = named.into_iter().find(|(_, referrers, _)| !referrers.keys.is_empty())
        else {
            return Ok(vec![]);
        };
        // These are too many to look through at each login.
        if referrers.has_more {
            return Ok(vec![]);
        }
        let mut having = vec![];
        for user in referrers.keys {
            let current = turn.get::<Standard<User>>(&user);
            let is_wanted = self
                .organization_id
                .as_ref()
                .is_none_or(|id| current.owner().is_ok_and(|owner| *owner == Owner::organization(id)));
            // Earlier builds change an address without changing the reference to it.
            let human = current.resource().and_then(|user| user.human.clone());
            let human = human.filter(|human| is_wanted && human.contacts().contains(&contact));
            let Some(human) = human else { continue };
            let is_live = existence::is_there::<User>(turn, &user) && organization_of_live(turn, &current)?.is_some();
            having.push((is_live, PersonWithContact { user, human, kind }));
        }
        let are_several = having.len() > 1;
        Ok(having.into_iter().filter(|(is_live, _)| *is_live || !are_several).map(|(_, having)| having).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    #[test]
    fn a_phone_number_is_counted_as_one_however_it_is_written_whoever_has_it() {
        let keys = &Scene::logged_in(None).keys;
        let said = |text: &str| tries_hash(keys, &Search::LoginName(text.to_owned()));
        let same = ["+44 1632 960123", "+44-1632-960123", "+44 (1632) 960.123"].map(said);
        assert!(same.iter().all(|it| *it == said("+441632960123")));
        assert_ne!(said("+441632960123"), said("+441632960124"));
        assert_ne!(said("ada+x@mail.example"), said("ada+x@mailexample"));
    }
}
