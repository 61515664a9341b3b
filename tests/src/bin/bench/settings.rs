//! What it costs to resolve settings in process, where many contexts set some.

use std::{hint::black_box, time::Instant};

use domain::{
    context::Owner,
    setting::{features::Features, languages::Languages},
    settings::{Event, Properties, Settings},
};
use eventlog::{
    log::Follower,
    record::{CommitRecord, Event as Written, Record, encode, owner_type},
};
use view::settings::{SettingsIndex, key};

/// How many organizations set their languages.
const ORGANIZATIONS: u64 = 100_000;
/// How often is asked.
const LOOKS: u32 = 1_000_000;
const INSTANCE: &str = "1";

pub(crate) fn measure() {
    let mut index = SettingsIndex::default();
    let languages = |default: &str| Languages {
        default_language: Some(default.to_owned()),
        restricted_languages: Some(["en", "de", "fr"].map(str::to_owned).to_vec()),
    };
    set(&mut index, 1, &Owner::instance(INSTANCE), languages("fr"));
    let flags = Features { multitenancy_settings: Some(true), ..Features::default() };
    set(&mut index, 2, &Owner::instance(INSTANCE), flags);
    for number in 3..ORGANIZATIONS + 3 {
        set(&mut index, number, &Owner::organization(number.to_string()), languages("de"));
    }
    println!("| resolved of {ORGANIZATIONS} organizations | time |\n|---|---|");
    let both = |context: &Owner| {
        let chain = index.effective::<Languages>(INSTANCE, context).chain;
        (chain.default_language().value.len(), chain.restricted_languages().value.len())
    };
    let organizations: Vec<_> = (3..1003).map(|number: u64| Owner::organization(number.to_string())).collect();
    look("the languages of an organization that sets them", |at| both(&organizations[at % 1000]));
    let other = Owner::organization("none");
    look("the languages of one that sets none", |_| both(&other));
    let instance = Owner::instance(INSTANCE);
    look("a flag of the instance, as each request asks", |_| {
        index.effective::<Features>(INSTANCE, &instance).chain.has("multitenancy_settings")
    });
}

fn set<P: Properties>(index: &mut SettingsIndex, sequence: u64, context: &Owner, to: P) {
    let (r#type, payload) = encode::<Settings<P>>(&Event::Changed { to: to.into(), fields: vec![] });
    let key = key::<P>(INSTANCE, context, "");
    let written = Written {
        instance_id: key.instance_id,
        owner_type: owner_type(context.kind),
        owner_id: context.id.clone(),
        aggregate_type: key.aggregate_type,
        aggregate_id: key.id,
        r#type,
        revision: 1,
        payload,
        ..Written::default()
    };
    let commit = CommitRecord { first_sequence: sequence, events: vec![written], ..CommitRecord::default() };
    index.apply(&Record::new(sequence, [0; 32], commit));
}

fn look<T>(what: &str, resolve: impl Fn(usize) -> T) {
    let begun = Instant::now();
    for at in 0..LOOKS as usize {
        black_box(resolve(black_box(at)));
    }
    println!("| {what} | {:.0} ns |", begun.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKS));
}
