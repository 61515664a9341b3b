//! Whom somebody says to be who logs in: by the id, the login name, or an address.

use std::collections::BTreeSet;

use domain::{
    context::Owner,
    resource::user::{User, contact},
    standard::Standard,
};
use eventlog::record::AggregateKey;
use proto::session::check_user::Search;
use view::{
    history::Referrers,
    keyring::{claim_hash, hashed_claim},
};

use crate::turn::{ClaimKeys, Turn};

/// By which addresses people are found who say no login name, and of which organization they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contacts {
    pub(crate) kinds: Vec<contact::Kind>,
    /// `None` for people of all organizations.
    pub(crate) organization_id: Option<String>,
}

impl Contacts {
    /// The user that is named, also by an address, which comes after login names.
    pub(crate) fn named(&self, turn: &mut Turn<'_>, keys: &ClaimKeys, of: (&str, &Search)) -> Option<AggregateKey> {
        let by_contact = match of {
            (instance_id, Search::LoginName(said)) => self.having(turn, keys, (instance_id, said)),
            (_, Search::UserId(_)) => None,
        };
        named(turn, keys, of).or(by_contact)
    }

    /// Who has an address that was said. Where several have it, it is the one who is known to; where that is not one, nobody.
    fn having(&self, turn: &mut Turn<'_>, keys: &ClaimKeys, (instance_id, said): (&str, &str)) -> Option<AggregateKey> {
        let mut referrers = |kind: &contact::Kind| {
            let hash = hashed_claim(&keys.instance, &kind.hashed(said));
            let contact = AggregateKey {
                instance_id: instance_id.into(),
                aggregate_type: contact::CONTACT.into(),
                id: hash.expose().unwrap_or_default().into(),
            };
            [kind.verified, kind.of_anybody].map(|link| turn.referrers(&contact, link))
        };
        // All that must be loaded is loaded at once.
        let all: Vec<Referrers> = self.kinds.iter().flat_map(&mut referrers).collect();
        let mut found = all.into_iter().map(|it| (it.has_more, self.of_organization(turn, it.keys)));
        match found.find(|(has_more, keys)| *has_more || !keys.is_empty())? {
            (false, keys) => <[AggregateKey; 1]>::try_from(keys).ok().map(|[key]| key),
            (true, _) => None,
        }
    }

    fn of_organization(&self, turn: &mut Turn<'_>, keys: BTreeSet<AggregateKey>) -> Vec<AggregateKey> {
        let Some(id) = &self.organization_id else { return keys.into_iter().collect() };
        let is_of_it = |key: &AggregateKey| {
            turn.get::<Standard<User>>(key).owner().is_ok_and(|owner| *owner == Owner::organization(id))
        };
        keys.into_iter().filter(is_of_it).collect()
    }
}

/// The user of an instance that is named, by the id or the login name.
pub(crate) fn named(
    turn: &mut Turn<'_>,
    keys: &ClaimKeys,
    (instance_id, search): (&str, &Search),
) -> Option<AggregateKey> {
    let key = match search {
        Search::UserId(id) => Some(AggregateKey::of::<Standard<User>>(instance_id, id.as_str())),
        Search::LoginName(name) => turn.holder(&claim_hash(&keys.instance, &User::username_claim(name))),
    };
    // Postgres has no U+0000 in texts.
    key.filter(|key| !key.id.contains('\0'))
}
